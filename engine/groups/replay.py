"""Rebuilds a shard's state from the records of its log."""

from collections.abc import Callable, Iterable

from bowstring._native.protocol.message_codec import ProtocolError, decode
from bowstring._native.protocol.offset_commits import decode_offset_commits
from bowstring.engine.groups.classic.group import ClassicGroup, GroupState, Member
from bowstring.engine.groups.classic.rebalance import prepare_rebalance, restart_session
from bowstring.engine.groups.consumer import records as consumer_records
from bowstring.engine.groups.consumer import replay as consumer_replay
from bowstring.engine.groups.consumer import timers as consumer_timers
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.modern.group import SubscribingGroup
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset, PartitionOffsets
from bowstring.engine.groups.records import GROUP_METADATA, LEGACY_OFFSET_COMMIT, OFFSET_COMMIT
from bowstring.engine.groups.share import membership as share_membership
from bowstring.engine.groups.share import records as share_records
from bowstring.engine.groups.share import replay as share_replay
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams import membership as streams_membership
from bowstring.engine.groups.streams import replay as streams_replay
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.protocol.records.classic_group import GroupMetadataKey, GroupMetadataValue
from bowstring.protocol.records.offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

NO_PRODUCER = -1
# A larger dict would hold the control thread up when it grows.
COLLECTED_MAX = 100_000
# Offset commits that are decoded while the GIL is held: less than a millisecond.
_DECODED_AT_ONCE = 1_000

_GROUP_METADATA_PREFIX = GROUP_METADATA.to_bytes(2, "big")
_OFFSET_PREFIXES = tuple(kind.to_bytes(2, "big") for kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT))

# by key: offset and value
_Latest = dict[bytes | None, tuple[int, bytes | None]]
_Item = tuple[bytes | None, tuple[int, bytes | None]]


class Replay:
    """Applies a partition's records to an empty state.

    Outside transactions only the last value of a key counts. So keys are first collected in one dict without
    a Python call per record, and only the remaining records are decoded: at the end, or when there are very
    many. This is correct because records of different keys do not depend on each other's order, except those
    of groups on those of their offsets. So groups come last, classic ones first: a group that became a
    consumer group is one then.

    Args:
        state: Of the shard; empty.
        collected_max: With this many keys, those that are not of groups are decoded.
    """

    def __init__(self, state: ShardState, collected_max: int = COLLECTED_MAX) -> None:
        self._state = state
        self._collected_max = collected_max
        self._latest: _Latest = {}
        self._groups: _Latest = {}

    def add(
        self,
        offsets: Iterable[int],
        keys: Iterable[bytes | None],
        values: Iterable[bytes | None],
        producer_id: int = NO_PRODUCER,
    ) -> None:
        """Adds the records of a batch, in order. `producer_id` is set when the batch is transactional."""
        if producer_id == NO_PRODUCER:
            self._latest.update(zip(keys, zip(offsets, values, strict=True), strict=True))
            if len(self._latest) > self._collected_max:
                self._apply_latest()
            return
        self._apply_latest()
        for offset, key, value in zip(offsets, keys, values, strict=True):
            self._apply(key, value, offset, producer_id)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Applies a control batch that ends the producer's transaction."""
        self._apply_latest()
        self._state.offsets.end_transaction(producer_id, commit=commit)

    def finish(self, now_ms: int) -> None:
        """Ends the replay and starts the members' sessions."""
        self.flush()
        state = self._state
        for group in list(state.groups.values()):
            if isinstance(group, ClassicGroup):
                _start_classic(state, group, now_ms)
            elif isinstance(group, ConsumerGroup):
                consumer_timers.start_sessions(state, group)
            elif isinstance(group, ShareGroup):
                share_membership.start_sessions(state, group)
            elif isinstance(group, StreamsGroup):
                streams_membership.start_sessions(state, group)

    def flush(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Decodes the collected records while `go_on` allows it. Takes long; may run on another thread.

        Frees them one by one: to free a million at once would hold the control thread up.
        """
        self._apply_latest(go_on)
        groups, self._groups = self._groups, {}
        if not groups:
            return
        classic = [key for key in groups if key and key.startswith(_GROUP_METADATA_PREFIX)]
        self._apply_all({key: groups.pop(key) for key in classic}, go_on)
        self._apply_all(groups, go_on)
        for group in self._state.groups.values():
            if isinstance(group, SubscribingGroup):
                group.replayed()

    def _apply_latest(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Decodes the collected records but those of groups."""
        latest, self._latest = self._latest, {}
        for key in [key for key in latest if key and not key.startswith(_OFFSET_PREFIXES)]:
            self._groups[key] = latest.pop(key)
        items = iter(latest.items())
        others: list[_Item] = []
        while (
            go_on()
            and decode_offset_commits(items, _DECODED_AT_ONCE, self._partitions_of, CommittedOffset, others)
            == _DECODED_AT_ONCE
        ):
            pass
        self._apply_all(dict(others), go_on)
        while latest:
            latest.popitem()

    def _partitions_of(self, group_id: str, topic: str, commit_timestamp_ms: int) -> PartitionOffsets:
        _ensure_group(self._state, group_id, commit_timestamp_ms)
        return self._state.offsets.partitions(group_id, topic)

    def _apply_all(self, latest: _Latest, go_on: Callable[[], bool]) -> None:
        for key, (offset, value) in latest.items():
            if not go_on():
                break
            self._apply(key, value, offset, NO_PRODUCER)
        while latest:
            latest.popitem()

    def _apply(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int) -> None:
        apply = APPLY.get(int.from_bytes(key[:2], "big")) if key else None
        if key is None or apply is None:
            self._state.note(
                f"record {offset} of the group log is skipped because its type is unknown; a newer version "
                "may have written it"
            )
            return
        try:
            apply(self._state, key, value, offset, producer_id)
        except ProtocolError as error:
            self._state.note(
                f"record {offset} of the group log is skipped because it cannot be decoded: {error}"
            )


def _start_classic(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    for member in group.members.values():
        restart_session(state, group, member)
    size = len(group.members)
    if size and group.leader_id is None:
        group.leader_id = next(iter(group.members))
        prepare_rebalance(state, group, "it became a classic group just before", now_ms)
    elif size > state.config.group_max_size:
        prepare_rebalance(state, group, f"{size} members exceed group.max.size", now_ms)


def _offset_commit(
    state: ShardState, key: bytes, value: bytes | None, record_offset: int, producer_id: int
) -> None:
    name = decode(OffsetCommitKey, 0, key, 2)
    if value is None:
        state.offsets.remove(name.group, name.topic, name.partition)
        return
    body = decode(OffsetCommitValue, _version(value), value, 2)
    offset = CommittedOffset(
        body.offset,
        body.leader_epoch,
        body.metadata,
        body.commit_timestamp,
        body.expire_timestamp,
        body.topic_id,
        record_offset,
    )
    _put(state, (name.group, name.topic, name.partition), offset, producer_id)


def _legacy_offset_commit(
    state: ShardState, key: bytes, value: bytes | None, record_offset: int, producer_id: int
) -> None:
    """Applies an offset commit as Kafka 0.8.2 wrote it."""
    name = decode(LegacyOffsetCommitKey, 0, key, 2)
    if value is None:
        state.offsets.remove(name.group, name.topic, name.partition)
        return
    body = decode(LegacyOffsetCommitValue, _version(value), value, 2)
    offset = CommittedOffset(
        body.offset, -1, body.metadata, body.commit_timestamp, NO_EXPIRY, bytes(16), record_offset
    )
    _put(state, (name.group, name.topic, name.partition), offset, producer_id)


def _ensure_group(state: ShardState, group_id: str, commit_timestamp_ms: int) -> None:
    """Adds a group that may only hold offsets; its own record may follow."""
    if group_id not in state.groups:
        state.groups[group_id] = ClassicGroup(group_id, commit_timestamp_ms)


def _put(state: ShardState, key: tuple[str, str, int], offset: CommittedOffset, producer_id: int) -> None:
    _ensure_group(state, key[0], offset.commit_timestamp_ms)
    if producer_id == NO_PRODUCER:
        state.offsets.put(*key, offset)
    else:
        state.offsets.put_pending(producer_id, key, offset)


def _group_metadata(
    state: ShardState, key: bytes, value: bytes | None, record_offset: int, producer_id: int
) -> None:
    group_id = decode(GroupMetadataKey, 0, key, 2).group
    if value is None:
        if state.classic(group_id) is not None and not state.offsets.of_group(group_id):
            del state.groups[group_id]
        return
    body = decode(GroupMetadataValue, _version(value), value, 2)
    timestamp_ms = body.current_state_timestamp
    group = ClassicGroup(group_id, None if timestamp_ms == -1 else timestamp_ms)
    group.generation = body.generation
    group.protocol_type = body.protocol_type or None
    group.protocol_name = body.protocol
    for member in body.members:
        rebalance_ms = member.rebalance_timeout
        group.add(
            Member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout if rebalance_ms == -1 else rebalance_ms,
                member.session_timeout,
                body.protocol_type,
                [(body.protocol or "", member.subscription)],
                member.assignment,
            )
        )
    if group.members:
        group.state = GroupState.STABLE
        group.leader_id = body.leader  # not the first member
    group.refresh_subscribed_topics()
    state.groups[group_id] = group


def _version(value: bytes) -> int:
    return int.from_bytes(value[:2], "big")


APPLY: dict[int, Callable[[ShardState, bytes, bytes | None, int, int], None]] = {
    LEGACY_OFFSET_COMMIT: _legacy_offset_commit,
    OFFSET_COMMIT: _offset_commit,
    GROUP_METADATA: _group_metadata,
    **dict.fromkeys(consumer_records.TYPES, consumer_replay.apply),
    **dict.fromkeys(share_records.TYPES, share_replay.apply),
    **dict.fromkeys(streams_replay.RECORD_TYPES, streams_replay.apply),
}
"""Function by record type, the first two bytes of a key: (state, key, value, record offset, producer id)."""
