"""Groups of types that are not run here: kept in the log, and taken apart in Kafka's order when they must go."""

from bowstring._native.protocol.message_codec import encode
from bowstring.engine.groups import records
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.effects import AppendRecords, Note
from bowstring.engine.groups.offsets.store import CommittedOffset
from bowstring.engine.groups.replay import Replay
from bowstring.engine.groups.state import ShardState
from bowstring.engine.protocol.records.streams_group import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
)


def key(kind, declared, **fields):
    return kind.to_bytes(2, "big") + encode(declared(**fields), 0)


GROUP = key(17, StreamsGroupMetadataKey, group_id="g")
MEMBER = key(19, StreamsGroupMemberMetadataKey, group_id="g", member_id="m")
EPOCH = key(20, StreamsGroupTargetAssignmentMetadataKey, group_id="g")
TARGET = key(21, StreamsGroupTargetAssignmentMemberKey, group_id="g", member_id="m")
CURRENT = key(22, StreamsGroupCurrentMemberAssignmentKey, group_id="g", member_id="m")
OTHER = key(17, StreamsGroupMetadataKey, group_id="other")


def loaded(log):
    state = ShardState(GroupConfig(), lambda: "0")
    replay = Replay(state)
    replay.add(range(len(log)), [each for each, _ in log], [value for _, value in log])
    replay.finish(0)
    return state


def appended(state):
    return [effect.records for effect in state.take_effects() if isinstance(effect, AppendRecords)]


def test_they_are_kept_without_a_word_and_offsets_of_the_group_are_served():
    offset = CommittedOffset(5, 0, "", 1000, -1, bytes(16), 0)
    state = loaded([(GROUP, b"\0\0"), (MEMBER, b"\0\0"), records.offset_commit("g", "t", 0, offset)])
    assert not [effect for effect in state.take_effects() if isinstance(effect, Note)]
    assert state.kept.of_group("g") == [GROUP, MEMBER]
    assert state.offsets.of_group("g")["t"][0].offset == 5


def test_a_classic_group_of_the_name_takes_their_place():
    state = loaded([(each, b"\0\0") for each in (GROUP, MEMBER, EPOCH, TARGET, CURRENT, OTHER)])
    own = records.empty_group(ClassicGroup("g", 1000))
    state.append([own])
    state.append([own])
    gone = [(each, None) for each in (CURRENT, TARGET, EPOCH, MEMBER, GROUP)]
    assert appended(state) == [[*gone, own], [own]]
    assert state.kept.of_group("other") == [OTHER]


def test_committing_offsets_leaves_them():
    state = loaded([(GROUP, b"\0\0")])
    state.append([records.offset_tombstone("g", "t", 0)])
    assert appended(state) == [[records.offset_tombstone("g", "t", 0)]]


def test_what_was_deleted_is_not_kept():
    state = loaded([(GROUP, b"\0\0"), (MEMBER, b"\0\0"), (MEMBER, None), (GROUP, None)])
    assert state.kept.of_group("g") == []
