"""Share sessions: epochs, what an answer names, limits, connections that end (KIP-932)."""

import pytest

from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.share.sessions import SessionKey, SessionPartition, ShareSessions, next_epoch

ANN, BEN = SessionKey("g", "ann"), SessionKey("g", "ben")
TOPIC = bytes(16)


def parts(*indexes):
    return [SessionPartition(TOPIC, index, "t") for index in indexes]


def refused(call, *arguments):
    with pytest.raises(KafkaError) as found:
        call(*arguments)
    return found.value.error


def test_epochs():
    assert [next_epoch(each) for each in (0, 1, 0x7FFFFFFF, -1)] == [1, 2, 1, -1]
    sessions = ShareSessions(2)
    assert refused(sessions.advance, ANN, 1) is Errors.SHARE_SESSION_NOT_FOUND
    sessions.open(ANN, 7, parts(0))
    assert sessions.advance(ANN, 1).epoch == 2
    assert refused(sessions.advance, ANN, 1) is Errors.INVALID_SHARE_SESSION_EPOCH
    assert sessions.open(ANN, 7, parts(1)).epoch == 1 and len(sessions) == 1


def test_a_connection_takes_its_sessions_along():
    sessions = ShareSessions(2)
    sessions.open(ANN, 7, parts(0))
    sessions.open(BEN, 8, parts(0))
    assert refused(sessions.open, SessionKey("h", "c"), 9, []) is Errors.SHARE_SESSION_LIMIT_REACHED
    sessions.open(BEN, 9, parts(1))
    assert sessions.connection_ended(8) == ([], {"g"})
    ended, groups = sessions.connection_ended(9)
    assert [each.key for each in ended] == [BEN] and groups == {"g"} and sessions.has_members("g")
    assert refused(sessions.open, BEN, 9, []) is Errors.SHARE_SESSION_LIMIT_REACHED
    sessions.remove(ANN)
    assert not sessions.has_members("g") and sessions.remove(ANN) is None
    assert sessions.connection_ended(7) == ([], {"g"})


def test_answers_name_what_is_new():
    session = ShareSessions(1).open(ANN, 7, parts(0, 1))

    def named(index, *, has_records=False, failed=False):
        return session.must_answer(TOPIC, index, has_records=has_records, failed=failed)

    assert not named(0)
    assert named(0, has_records=True)
    assert [each.partition for each in session] == [1, 0]
    assert named(1, failed=True) and named(1) and not named(1)
    session.update(parts(0, 2), [])
    assert not named(0) and named(2) and not named(2)
    session.update([], [(TOPIC, 1), (TOPIC, 9)])
    assert [each.partition for each in session] == [0, 2] and len(session) == 2
    assert named(1, has_records=True) and not named(1)
