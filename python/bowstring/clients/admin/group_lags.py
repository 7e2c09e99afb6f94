"""Implements Admin's methods for the lag of groups, in records and in time."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from bowstring.clients.admin.results import GroupDescription, GroupLag, ShareOffset
from bowstring.clients.errors import BrokerError, ClientError, GroupError, broker_error
from bowstring.clients.records import OffsetAndMetadata, TopicInfo, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from bowstring.clients.net.metadata import ClusterMetadata

Place = tuple[TopicPartition, int]

TIMESTAMPS_S: Final = 1.0
"""No further rounds for large batches begin after so long."""
# Kafka sends the beginning of a batch that is larger, and its header is enough; Bowstring sends none.
_ROUNDS_BYTES: Final = (4_096, 131_072, 1_048_576)
_ANSWER_MAX_BYTES: Final = 8_388_608
# Requests of a round to one broker at once, each with another offset of the same partitions.
_AT_ONCE: Final = 8
_MAX_WAIT_MS: Final = 50
_MAGIC_AT: Final = 16


class AdminGroupLags:
    """Mixed into Admin, which provides the calls."""

    if TYPE_CHECKING:
        _cluster: ClusterMetadata
        _lock: threading.RLock
        _timeout_s: float

        def topics(self, *, internal: bool = False) -> dict[str, TopicInfo]: ...  # noqa: D102
        def describe_group(self, group: str) -> GroupDescription: ...  # noqa: D102
        def committed_offsets(  # noqa: D102
            self, group: str
        ) -> dict[TopicPartition, OffsetAndMetadata]: ...
        def describe_share_offsets(self, group: str) -> dict[TopicPartition, ShareOffset]: ...  # noqa: D102

        def beginning_offsets(  # noqa: D102
            self, partitions: Iterable[TopicPartition]
        ) -> dict[TopicPartition, int]: ...
        def end_offsets(  # noqa: D102
            self, partitions: Iterable[TopicPartition]
        ) -> dict[TopicPartition, int]: ...

    def group_lag(self, group: str) -> list[GroupLag]:
        """Returns the group's lag in each partition of the topics that it reads or has committed offsets for.

        In a partition without a committed offset, all records count.

        Args:
            group: id of the group.

        Raises:
            GroupError: the group does not exist.
        """
        found = self.group_lags([group]).get(group)
        if found is None:
            raise broker_error(Errors.GROUP_ID_NOT_FOUND.code, f"group {group!r}", "the group does not exist")
        return found

    def group_lags(self, groups: Iterable[str]) -> dict[str, list[GroupLag]]:
        """Returns the `group_lag` of several groups, with one query of topics and their ends; groups
        that do not exist are left out.

        Args:
            groups: ids of groups.
        """
        shares: dict[str, list[GroupLag]] = {}
        known: dict[str, tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata]]] = {}
        for group in groups:
            try:
                description = self.describe_group(group)
            except GroupError:
                continue
            if description.group_type == "share":
                shares[group] = self._share_lag(group)
            else:
                known[group] = description, self.committed_offsets(group)
        return shares | self._lags_of_known(known)

    def _lags_of_known(
        self,
        known: Mapping[str, tuple[GroupDescription, Mapping[TopicPartition, OffsetAndMetadata]]],
        topics: Mapping[str, TopicInfo] | None = None,
    ) -> dict[str, list[GroupLag]]:
        """Returns the lags of groups whose members and offsets are known."""
        if not known:
            return {}
        topics = self.topics(internal=True) if topics is None else topics
        partitions = {group: _partitions(*each, topics) for group, each in known.items()}
        served = {p for each in partitions.values() for p in each if _is_led(topics, p)}
        first, ends = self._ends_now(self.beginning_offsets, served), self._ends_now(self.end_offsets, served)
        return {group: _rows(*known[group], partitions[group], first, ends) for group in known}

    def _ends_now(
        self,
        ask: Callable[[Collection[TopicPartition]], dict[TopicPartition, int]],
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """Returns offsets, without those of topics that are deleted meanwhile."""
        try:
            return ask(partitions) if partitions else {}
        except BrokerError as error:
            if error.code != Errors.UNKNOWN_TOPIC_OR_PARTITION.code:
                raise
        topics = self.topics(internal=True)
        left = [partition for partition in partitions if _is_led(topics, partition)]
        return ask(left) if left else {}

    def _share_lag(self, group: str) -> list[GroupLag]:
        """Returns rows whose `committed` is the first offset that may be delivered again.

        Records after it may be done, too: the lag leaves them out.
        """
        offsets = self.describe_share_offsets(group)
        ends = self.end_offsets(offsets) if offsets else {}
        return [
            GroupLag(p, each.start_offset, ends.get(p, -1), each.lag if each.lag >= 0 else None, None)
            for p, each in sorted(offsets.items())
        ]

    def batch_timestamps(self, places: Iterable[tuple[TopicPartition, int]]) -> dict[Place, int]:
        """Returns the timestamps (ms) of the batches at offsets: that of a batch's first record, or when the
        broker appended it.

        Queries all leaders in parallel. Places without a batch are left out, and after a second the rest of
        those with large batches.

        Args:
            places: partitions and offsets; a partition may have several.
        """
        found: dict[Place, int | None] = {}
        deadline = time.monotonic() + TIMESTAMPS_S
        left = sorted({(TopicPartition(*partition), offset) for partition, offset in places})
        with self._lock:
            for size_bytes in _ROUNDS_BYTES:
                before = -1
                while left and len(found) > before:
                    before = len(found)
                    found |= self._batches(left, size_bytes)
                    left = [place for place in left if place not in found]
                    if size_bytes != _ROUNDS_BYTES[-1] or time.monotonic() > deadline:
                        break
        return {place: at_ms for place, at_ms in found.items() if at_ms is not None}

    def _batches(self, places: list[Place], size_bytes: int) -> dict[Place, int | None]:
        """Queries every leader once for each place, if that fits; None for a place without a time."""
        client = self._cluster.client
        waiting = []
        for node, asked in self._by_leader_and_turn(places).items():
            for offsets in asked:
                body = self._fetch_request(offsets, size_bytes)
                waiting.append((offsets, client.send(node, FetchRequest, body, timeout_s=self._timeout_s)))
        found: dict[Place, int | None] = {}
        for offsets, pending in waiting:
            try:
                answer = client.wait(pending)
            except ClientError:
                continue  # other calls report which broker is down
            for part in answer.partitions:
                name = part.topic or self._topic_names().get(part.topic_id, "")
                partition = TopicPartition(name, part.partition)
                if partition not in offsets:
                    continue
                if part.error_code or (part.records is not None and len(part.records) > _MAGIC_AT):
                    found[partition, offsets[partition]] = (
                        None if part.error_code else batch_timestamp_ms(bytes(part.records[:64]))
                    )
        return found

    def _topic_names(self) -> dict[bytes, str]:
        return {info.topic_id: name for name, info in self._cluster.topics.items()}

    def _by_leader_and_turn(self, places: list[Place]) -> dict[Any, list[dict[TopicPartition, int]]]:
        """Returns requests by leader; a request has a partition once."""
        requests: dict[Any, list[dict[TopicPartition, int]]] = {}
        turns: dict[TopicPartition, int] = {}
        for partition, offset in places:
            node = self._cluster.leader(*partition)
            turn = turns.get(partition, 0)
            if node is None or turn >= _AT_ONCE:
                continue
            turns[partition] = turn + 1
            asked = requests.setdefault(node, [])
            if turn == len(asked):
                asked.append({})
            asked[turn][partition] = offset
        return requests

    def _fetch_request(self, offsets: Mapping[TopicPartition, int], size_bytes: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), offset in offsets.items():
            asked = topics.setdefault(
                topic, FetchTopic(topic=topic, topic_id=self._cluster.topic_id(topic), partitions=[])
            )
            asked.partitions.append(
                FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size_bytes)
            )
        return FetchRequest(
            max_wait_ms=_MAX_WAIT_MS, min_bytes=1, max_bytes=_ANSWER_MAX_BYTES, topics=list(topics.values())
        )


def _is_led(topics: Mapping[str, TopicInfo], partition: TopicPartition) -> bool:
    info = topics[partition.topic].partitions if partition.topic in topics else {}
    return partition.partition in info and info[partition.partition].leader >= 0


def _partitions(
    description: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    topics: Mapping[str, TopicInfo],
) -> list[TopicPartition]:
    """Returns the partitions of a group's topics; those of deleted topics if they have offsets."""
    named = set(committed) | {p for member in description.members for p in member.assignment}
    every = {
        TopicPartition(name, number)
        for name in {partition.topic for partition in named}
        if name in topics
        for number in topics[name].partitions
    }
    return sorted(named | every)


def _rows(
    description: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    partitions: Iterable[TopicPartition],
    first: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[GroupLag]:
    readers = {partition: member for member in description.members for partition in member.assignment}
    rows = []
    for partition in partitions:
        stored = committed[partition].offset if partition in committed else None
        end = ends.get(partition, -1)
        start = first.get(partition, -1)
        begin = start if stored is None else stored
        lag = max(0, end - begin) if end >= 0 and begin >= 0 else None
        rows.append(GroupLag(partition, stored, end, lag, readers.get(partition), start))
    return rows


def batch_timestamp_ms(head: bytes) -> int | None:
    """Returns the timestamp of a batch from its first bytes; None if it has none, or too few bytes are there.

    Batches of magic 2 have the first record's timestamp, unless brokers set them (LogAppendTime) or
    compaction has put the time there from which deletes go (KIP-534): then the largest counts.
    """
    if len(head) <= _MAGIC_AT:
        return None
    magic = head[_MAGIC_AT]
    at_ms = -1
    if magic == 1 and len(head) >= 26:
        (at_ms,) = struct.unpack_from(">q", head, 18)
    elif magic == 2 and len(head) >= 43:
        attributes, _, base_ms, max_ms = struct.unpack_from(">hiqq", head, 21)
        at_ms = max_ms if attributes & 0b0100_1000 else base_ms
    return at_ms if at_ms >= 0 else None
