"""Stores committed offsets by group, topic and partition, and offsets of open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

ZERO_TOPIC_ID = bytes(16)
NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """One committed offset. A tuple, because a broker holds very many."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # explicit expiry, from the retention time of OffsetCommit 2-4; NO_EXPIRY: the broker's retention applies
    expire_timestamp_ms: int
    topic_id: bytes
    # offset of the record in the partition's log; decides whether a transaction that commits later overwrites
    # it
    record_offset: int

    def is_of_topic(self, topic_id: bytes) -> bool:
        """Whether the offset belongs to the topic id. False only when both ids are known and differ: the
        topic was deleted and created again.
        """
        return ZERO_TOPIC_ID in (self.topic_id, topic_id) or self.topic_id == topic_id


PartitionOffsets = dict[int, CommittedOffset]
TopicOffsets = dict[str, PartitionOffsets]
# group id, topic, partition
OffsetKey = tuple[str, str, int]


class OffsetStore:
    """The offsets of one shard, without knowledge of group types."""

    def __init__(self) -> None:
        self._groups: dict[str, TopicOffsets] = {}
        # by producer id: offsets whose transaction has not ended (KIP-98), last write of each key
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        # how many open transactions hold an offset of the key; by group, to check a group quickly
        self._open: dict[str, dict[tuple[str, int], int]] = {}

    # ---- reading

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Returns the offset last committed for the partition."""
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> TopicOffsets:
        """Returns all offsets of the group, by topic and partition. Do not modify."""
        return self._groups.get(group_id, {})

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds an offset for the partition (KIP-447)."""
        return (topic, partition) in self._open.get(group_id, {})

    def has_open_transactions(self, group_id: str) -> bool:
        """Whether any open transaction holds offsets of the group."""
        return group_id in self._open

    def open_partitions(self, group_id: str) -> list[tuple[str, int]]:
        """Returns topic and partition of every offset that an open transaction holds for the group."""
        return list(self._open.get(group_id, {}))

    def __iter__(self) -> Iterator[tuple[str, TopicOffsets]]:
        return iter(self._groups.items())

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    # ---- writing

    def forget(self, most: int) -> bool:
        """Forgets at least `most` offsets if there are that many. Returns whether some are left.

        A shard that has moved away is freed in steps, because a million offsets take too long for one.
        """
        while self._groups and most > 0:
            group_id, topics = self._groups.popitem()
            while topics and most > 0:
                topic, partitions = topics.popitem()
                while partitions and most > 0:
                    partitions.popitem()
                    most -= 1
                if partitions:
                    topics[topic] = partitions
            if topics:
                self._groups[group_id] = topics
        return bool(self._groups)

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Sets a committed offset."""
        self.partitions(group_id, topic)[partition] = offset

    def partitions(self, group_id: str, topic: str) -> PartitionOffsets:
        """Returns the offsets of a group in a topic. The caller adds at least one at once."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        return partitions

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Applies a tombstone: removes the committed offset and those of open transactions."""
        topics = self._groups.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._groups[group_id]
        if self.is_unstable(group_id, topic, partition):
            key = (group_id, topic, partition)
            for offsets in self._pending.values():
                if offsets.pop(key, None) is not None:
                    self._close(key)

    def put_pending(self, producer_id: int, key: OffsetKey, offset: CommittedOffset) -> None:
        """Stores an offset that becomes committed when `producer_id`'s transaction commits."""
        offsets = self._pending.setdefault(producer_id, {})
        if key not in offsets:
            counts = self._open.setdefault(key[0], {})
            counts[key[1:]] = counts.get(key[1:], 0) + 1
        offsets[key] = offset

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Commits or drops the producer's pending offsets. A newer plain commit is not overwritten."""
        for key, offset in self._pending.pop(producer_id, {}).items():
            self._close(key)
            standing = self.get(*key)
            if commit and (standing is None or offset.record_offset > standing.record_offset):
                self.put(*key, offset)

    def _close(self, key: OffsetKey) -> None:
        counts = self._open[key[0]]
        counts[key[1:]] -= 1
        if not counts[key[1:]]:
            del counts[key[1:]]
        if not counts:
            del self._open[key[0]]
