"""OffsetCommit, OffsetFetch, OffsetDelete and retention."""

import pytest

from bowstring.engine.groups import records
from bowstring.engine.groups.classic.group import GroupState
from bowstring.engine.groups.offsets.store import CommittedOffset, OffsetStore
from bowstring.engine.groups.shard import GroupShard
from bowstring.protocol.errors import Errors
from tests.support.group_harness import START_MS, Shell, snapshot, subscription

WEEK_MS = 7 * 24 * 60 * 60 * 1000
ID_A, ID_B = b"a" * 16, b"b" * 16


def test_commit_without_a_group():
    """Consumers that assign themselves partitions, and admin clients: generation -1, no member."""
    shell = Shell()
    assert shell.commit_error({("t", 0): 5, ("t", 1): 6}) == 0
    assert shell.fetched() == {("t", 0): (5, 0), ("t", 1): (6, 0)}
    assert shell.group().is_simple
    (listed,) = shell.shard.list_groups()
    assert (listed.group_id, listed.protocol_type, listed.group_state) == ("g", "", "Empty")


def test_fetch_of_what_was_never_committed():
    shell = Shell()
    shell.commit({("t", 0): 5})
    nothing = (-1, 0)
    assert shell.fetched({"t": [0, 1], "u": [0]}) == {
        ("t", 0): (5, 0),
        ("t", 1): nothing,
        ("u", 0): nothing,
    }
    assert shell.fetched({"t": [0]}, group="other") == {("t", 0): nothing}
    assert shell.fetched(group="other") == {}


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"generation": 1}, Errors.NONE),
        ({"generation": 0}, Errors.ILLEGAL_GENERATION),
        ({"generation": 2}, Errors.ILLEGAL_GENERATION),
        ({"generation": -1}, Errors.ILLEGAL_GENERATION),
        ({"generation": 1, "member_id": "stranger"}, Errors.UNKNOWN_MEMBER_ID),
        ({"generation": 1, "instance": "stranger"}, Errors.UNKNOWN_MEMBER_ID),
        ({"generation": -1, "member_id": ""}, Errors.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_to_a_group_with_members(how, error):
    shell = Shell()
    (member_id,) = shell.stable(1)
    assert shell.commit_error({("t", 0): 1}, **{"member_id": member_id} | how) == error.code


def test_commit_between_join_and_sync():
    shell = Shell()
    (member_id,) = shell.members(1)
    code = shell.commit_error({("t", 0): 1}, member_id=member_id, generation=1)
    assert code == Errors.REBALANCE_IN_PROGRESS.code


def test_commit_while_others_rejoin():
    """The last commit before giving partitions up must get through."""
    shell = Shell()
    first, second = shell.stable(2)
    shell.join(second, protocols=[("range", subscription("u"))])
    assert shell.commit_error({("t", 0): 1}, member_id=first, generation=1) == 0


@pytest.mark.parametrize(
    ("version", "error"), [(8, Errors.ILLEGAL_GENERATION), (9, Errors.GROUP_ID_NOT_FOUND)]
)
def test_commit_of_a_generation_nobody_knows(version, error):
    shell = Shell()
    assert shell.commit_error({("t", 0): 1}, generation=3, member_id="m", version=version) == error.code
    assert not shell.shard.state.groups


def test_a_member_of_an_emptied_group():
    shell = Shell()
    (member_id,) = shell.stable(1)
    shell.leave(member_id)
    code = shell.commit_error({("t", 0): 1}, member_id=member_id, generation=1)
    assert code == Errors.UNKNOWN_MEMBER_ID.code
    assert shell.commit_error({("t", 0): 1}) == 0, "an admin may set offsets now"


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (None, Errors.NONE),
        ("x" * 10, Errors.NONE),
        ("x" * 11, Errors.OFFSET_METADATA_TOO_LARGE),
        # Java counts these as two characters each
        ("\U0001f600" * 5, Errors.NONE),
        ("\U0001f600" * 6, Errors.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_size(metadata, error):
    shell = Shell(offset_metadata_max_bytes=10)
    assert shell.commit_error({("t", 0): 1}, metadata=metadata) == error.code
    if error is Errors.NONE:
        (part,) = shell.ask(shell.fetch()).topics[0].partitions
        assert part.metadata == (metadata or "")


def test_commit_is_answered_when_it_is_committed():
    shell = Shell()
    shell.hold = True
    token = shell.commit({("t", 0): 5})
    reading = shell.fetch()
    assert not {token, reading} & set(shell.answers)
    shell.release()
    assert shell.ask(token).topics[0].partitions[0].error_code == 0
    assert shell.ask(reading).topics[0].partitions[0].committed_offset == 5


def test_commit_that_cannot_be_written():
    shell = Shell()
    shell.commit({("t", 0): 5})
    shell.fail = Errors.REQUEST_TIMED_OUT
    assert shell.commit_error({("t", 0): 6}) == Errors.COORDINATOR_NOT_AVAILABLE.code
    assert shell.fetched() == {("t", 0): (5, 0)}


def test_offset_of_a_topic_made_anew():
    shell = Shell()
    shell.commit({("t", 0): 5}, topic_id=ID_A)
    assert shell.fetched({"t": [0]}, topic_id=ID_A) == {("t", 0): (5, 0)}
    assert shell.fetched({"t": [0]}, topic_id=ID_B) == {("t", 0): (-1, 0)}
    assert shell.fetched({"t": [0]}) == {("t", 0): (5, 0)}, "by name, as before version 10"


def test_topic_deleted():
    shell = Shell()
    shell.commit({("t", 0): 5, ("u", 0): 5}, topic_id=ID_A)
    shell.commit({("t", 0): 6}, group="h", topic_id=ID_B)
    shell.commit({("t", 0): 7}, group="i")
    shell.topic_deleted("t", ID_A)
    assert shell.fetched() == {("u", 0): (5, 0)}
    assert shell.fetched(group="h") == {("t", 0): (6, 0)}, "of the next topic of that name"
    assert shell.fetched(group="i") == {}, "of unknown id"


# ---- OffsetDelete


def test_delete_offsets():
    shell = Shell()
    shell.commit({("t", 0): 5, ("t", 1): 6})
    answer = shell.delete_offsets({"t": [0, 7]})
    assert answer.error_code == 0
    assert [part.error_code for part in answer.topics[0].partitions] == [0, 0]
    assert shell.fetched() == {("t", 1): (6, 0)}
    shell.restart()
    assert shell.fetched() == {("t", 1): (6, 0)}


def test_offsets_in_use_stay():
    shell = Shell()
    (member_id,) = shell.stable(1)
    shell.commit({("t", 0): 5, ("old", 0): 6}, member_id=member_id, generation=1)
    answer = shell.delete_offsets({"t": [0], "old": [0]})
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"t": Errors.GROUP_SUBSCRIBED_TO_TOPIC.code, "old": 0}
    assert shell.fetched() == {("t", 0): (5, 0)}


def test_delete_offsets_of_other_groups():
    shell = Shell()
    assert shell.delete_offsets({"t": [0]}).error_code == Errors.GROUP_ID_NOT_FOUND.code
    assert shell.delete_offsets({"t": [0]}, group="").error_code == Errors.INVALID_GROUP_ID.code
    shell.stable(1, group="k", protocol_type="connect", protocols=[("default", b"")])
    assert shell.delete_offsets({"t": [0]}, group="k").error_code == Errors.NON_EMPTY_GROUP.code


# ---- retention (KIP-211)


def test_offsets_of_a_simple_group_expire_by_their_commit():
    shell = Shell()
    shell.commit({("t", 0): 5})
    shell.advance(WEEK_MS // 2)
    shell.commit({("t", 1): 6})
    shell.advance(WEEK_MS // 2)
    shell.expire()
    assert shell.fetched() == {("t", 1): (6, 0)}
    shell.advance(WEEK_MS // 2)
    shell.expire()
    assert not shell.shard.state.groups
    shell.restart()
    assert not shell.shard.state.groups


def test_offsets_of_a_group_count_from_when_it_became_empty():
    shell = Shell()
    (member_id,) = shell.stable(1, session_ms=1_800_000)
    shell.commit({("t", 0): 5}, member_id=member_id, generation=1)
    for _ in range(400):
        shell.advance(1_790_000)
        assert shell.heartbeat(member_id, 1) == 0
    shell.leave(member_id)
    shell.expire()
    assert shell.fetched() == {("t", 0): (5, 0)}
    shell.advance(WEEK_MS - 1)
    shell.expire()
    assert shell.fetched() == {("t", 0): (5, 0)}
    shell.advance(1)
    shell.expire()
    assert not shell.shard.state.groups


def test_offsets_of_a_stable_group_expire_only_for_topics_it_left():
    shell = Shell()
    (member_id,) = shell.stable(1, session_ms=1_800_000)
    shell.commit({("t", 0): 5, ("left", 0): 6}, member_id=member_id, generation=1)
    for _ in range(400):
        shell.advance(1_790_000)
        shell.heartbeat(member_id, 1)
    shell.expire()
    assert shell.fetched() == {("t", 0): (5, 0)}
    assert shell.group().state is GroupState.STABLE


def test_offsets_of_members_that_are_no_consumers_stay():
    shell = Shell()
    how = {"protocol_type": "connect", "protocols": [("default", b"")], "session_ms": 1_800_000}
    (member_id,) = shell.stable(1, **how)
    shell.commit({("t", 0): 5}, member_id=member_id, generation=1)
    for _ in range(400):
        shell.advance(1_790_000)
        shell.heartbeat(member_id, 1)
    shell.expire()
    assert shell.fetched() == {("t", 0): (5, 0)}


def test_an_explicit_retention_time_wins():
    shell = Shell()
    shell.commit({("t", 0): 5}, retention_ms=1_000, version=4)
    shell.commit({("t", 1): 5}, retention_ms=2 * WEEK_MS, version=4)
    shell.restart()
    shell.advance(1_000)
    shell.expire()
    assert shell.fetched() == {("t", 1): (5, 0)}
    shell.advance(WEEK_MS)
    shell.expire()
    assert shell.fetched() == {("t", 1): (5, 0)}


def test_empty_groups_without_offsets_are_cleaned_up():
    shell = Shell()
    (member_id,) = shell.stable(1)
    shell.leave(member_id)
    shell.ask(shell.join(group="promised"))
    shell.expire()
    assert set(shell.shard.state.groups) == {"promised"}
    shell.restart()
    assert set(shell.shard.state.groups) == {"promised"}


# ---- open transactions, as their offsets come back from the log (KIP-98, KIP-447)


def record(offset):
    """A commit of group g for t-0."""
    return records.offset_commit("g", "t", 0, CommittedOffset(offset, -1, "", START_MS, -1, ID_A, -1))


@pytest.mark.parametrize(("commit", "expected"), [(True, 9), (False, 5)])
def test_pending_offsets(commit, expected):
    shell = Shell()
    (key, plain), (_, pending) = record(5), record(9)
    shell.shard = GroupShard(shell.config, str)
    shell.shard.replay.add([0], [key], [plain])
    shell.shard.replay.add([1], [key], [pending], 77)
    shell.shard.loaded(START_MS)
    assert shell.fetched() == {("t", 0): (5, 0)}
    unstable = (-1, Errors.UNSTABLE_OFFSET_COMMIT.code)
    assert shell.fetched({"t": [0]}, require_stable=True) == {("t", 0): unstable}
    shell.shard.state.offsets.end_transaction(77, commit=commit)
    assert shell.fetched(require_stable=True) == {("t", 0): (expected, 0)}


def test_a_transaction_that_commits_after_a_newer_plain_commit():
    store = OffsetStore()
    key = ("g", "t", 0)
    store.put_pending(1, key, CommittedOffset(1, -1, "", 0, -1, ID_A, 10))
    store.put(*key, CommittedOffset(2, -1, "", 0, -1, ID_A, 11))
    store.end_transaction(1, commit=True)
    assert store.get(*key).offset == 2
    assert not store.has_open_transactions("g")


def test_a_tombstone_reaches_into_open_transactions():
    store = OffsetStore()
    key = ("g", "t", 0)
    store.put_pending(1, key, CommittedOffset(1, -1, "", 0, -1, ID_A, 10))
    store.put_pending(2, key, CommittedOffset(2, -1, "", 0, -1, ID_A, 11))
    store.remove(*key)
    assert not store.has_open_transactions("g")
    store.end_transaction(1, commit=True)
    store.end_transaction(2, commit=True)
    assert store.get(*key) is None
    assert len(store) == 0


def test_replay_brings_everything_back():
    shell = Shell()
    ids = shell.stable(3)
    shell.commit({("t", 0): 5}, member_id=ids[0], generation=1, topic_id=ID_A)
    shell.commit({("u", 1): 6}, group="simple", retention_ms=10, metadata="m")
    live = snapshot(shell.shard)
    shell.restart()
    assert snapshot(shell.shard) == live


def test_retention_beyond_what_a_record_can_hold():
    """OffsetCommit 2 to 4 takes any number: such an offset never expires."""
    shell = Shell()
    assert shell.commit_error({("t", 0): 5}, retention_ms=(1 << 63) - 1, version=2) == 0
    assert shell.fetched() == {("t", 0): (5, 0)}
