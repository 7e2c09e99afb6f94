"""Share sessions: epochs, the contents of answers, limits, connections that end (KIP-932)."""

import pytest

from bowstring.engine.share import sessions as share_sessions
from bowstring.engine.share.sessions import SessionKey, SessionPartition, ShareSessions, next_epoch
from bowstring.protocol.errors import Errors, KafkaError

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


def test_a_late_close_leaves_the_next_session():
    sessions = ShareSessions(2)
    first = sessions.open(ANN, 7, [])
    second = sessions.open(ANN, 8, [])
    assert not sessions.close(first) and sessions.get(ANN) is second
    assert sessions.close(second) and not sessions.close(second) and not len(sessions)


def test_answers_name_what_is_new():
    session = ShareSessions(1).open(ANN, 7, parts(0, 1))

    def named(index, *, has_records=False, failed=False):
        return session.must_answer(TOPIC, index, has_records=has_records, failed=failed)

    assert not named(0)
    assert named(0, has_records=True)
    assert [each.partition for each in session] == [1, 0]
    assert named(1, failed=True) and named(1) and not named(1)
    assert [session.add(each) for each in parts(0, 2)] == [False, True]
    assert not named(0) and named(2) and not named(2)
    assert [session.forget((TOPIC, each)) for each in (1, 9)] == [True, False]
    assert [each.partition for each in session] == [0, 2] and len(session) == 2
    assert named(1, has_records=True) and not named(1)


def test_sessions_have_only_so_many_partitions(monkeypatch):
    """Existence is not checked, so a client could name any number of them."""
    monkeypatch.setattr(share_sessions, "PARTITIONS_MAX", 5)
    monkeypatch.setattr(share_sessions, "SESSION_PARTITIONS_MAX", 4)
    sessions = ShareSessions(9)
    ann = sessions.open(ANN, 7, parts(0, 1, 2))
    assert refused(sessions.open, BEN, 7, parts(0, 1, 2)) is Errors.SHARE_SESSION_LIMIT_REACHED
    sessions.add(ann, *parts(2))
    sessions.add(ann, *parts(3))
    assert refused(sessions.add, ann, *parts(4)) is Errors.SHARE_SESSION_LIMIT_REACHED
    ben = sessions.open(BEN, 7, parts(0))
    assert refused(sessions.add, ben, *parts(1)) is Errors.SHARE_SESSION_LIMIT_REACHED
    sessions.forget(ann, (TOPIC, 0))
    sessions.forget(ann, (TOPIC, 0))
    sessions.add(ben, *parts(1))
    assert refused(sessions.add, ben, *parts(2)) is Errors.SHARE_SESSION_LIMIT_REACHED
    sessions.remove(ANN)
    assert len(sessions.open(ANN, 7, parts(0, 1, 2))) == 3


def test_a_connection_remembers_few_groups_that_it_has_left():
    """Their share partitions end with it, or earlier if there are many."""
    sessions = ShareSessions(2)
    sessions.open(ANN, 7, [])
    left = set()
    for number in range(200):
        key = SessionKey(f"g{number}", "m")
        sessions.open(key, 7, [])
        sessions.remove(key)
        left |= sessions.left_groups(7)
    assert "g" not in left and len(left) > 100
    assert sessions.connection_ended(7)[1] == {"g", *(f"g{each}" for each in range(200))} - left
    assert sessions.left_groups(7) == set()
