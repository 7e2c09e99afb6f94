"""Reads the states of single records of share groups, from the topic in which share coordinators keep them.

Kafka has no admin API for them. The right READ on that topic shows them. What members hold now is in the
memory of the leaders of partitions alone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring.clients.consumer.range_reader import BoundedConsumer
from bowstring.clients.errors import OffsetOutOfRangeError
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.operations.share_progress import STATE_TOPIC, ShareKey, SharePlace, ShareStates

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

RECORDS_MAX = 50_000
"""Of one partition of the topic: older ones are not read. Coordinators delete what snapshots replace."""
READ_S = 2.0
"""Of one look; the next one goes on."""
PARTITIONS_MAX = 500
"""Of a group."""
_FETCH_BYTES = 256 << 10
_POLL_RECORDS = 1_000


class ShareLook(NamedTuple):
    """What is known of a group.

    Attributes:
        places: by partition; those without a state are left out.
        complete: whether the topic was read to its end.
        visible: whether the user sees the topic.
    """

    places: Mapping[TopicPartition, SharePlace]
    complete: bool
    visible: bool = True


class ShareWatch:
    """Follows the states of one group. Calls block; any thread may call.

    Args:
        settings: of Consumer.
        group: its name.
    """

    def __init__(self, settings: Mapping[str, Any], group: str):
        self._settings, self._group = dict(settings), group
        self._lock = threading.Lock()
        self._keys: tuple[ShareKey, ...] = ()
        self._states = ShareStates()
        self._next: dict[TopicPartition, int] = {}

    def look(
        self, admin: Admin, topics: Mapping[str, TopicInfo], partitions: Sequence[TopicPartition]
    ) -> ShareLook:
        """Returns the states of partitions of the group; reads only what is new since the last look.

        Args:
            admin: client of the cluster.
            topics: of the cluster.
            partitions: that the group reads.

        Raises:
            ClientError: the cluster does not answer, or the user may not read the topic.
        """
        keys = {
            ShareKey(self._group, topics[each.topic].topic_id, each.partition): each
            for each in partitions[:PARTITIONS_MAX]
            if each.topic in topics
        }
        stored = topics.get(STATE_TOPIC)
        if stored is None or not keys:
            return ShareLook({}, True, stored is not None)
        count = len(stored.partitions)
        places = {TopicPartition(STATE_TOPIC, key.state_partition(count)) for key in keys}
        with self._lock:
            if tuple(keys) != self._keys:
                self._keys, self._states, self._next = tuple(keys), ShareStates(tuple(keys)), {}
            complete = self._read(admin, sorted(places))
            found = {each: state for key, each in keys.items() if (state := self._states.of(key)) is not None}
        return ShareLook(found, complete)

    def _read(self, admin: Admin, places: Sequence[TopicPartition]) -> bool:
        ends = admin.end_offsets(places)
        if any(self._next.get(each, -1) > ends[each] for each in places):
            # The topic is another one than before.
            self._states, self._next = ShareStates(self._keys), {}
        unread = [each for each in places if self._next.get(each, -1) < ends[each]]
        if not unread:
            return True
        begins = admin.beginning_offsets(unread)
        ranges = {}
        for each in unread:
            start = self._next.get(each, -1)
            # What is deleted meanwhile is older than the snapshots that replace it.
            start = max(start, begins[each], ends[each] - RECORDS_MAX)
            if start < ends[each]:
                ranges[each] = (start, ends[each])
        if ranges:
            with contextlib.suppress(
                OffsetOutOfRangeError
            ):  # deleted meanwhile: the next look finds the begin
                self._read_ranges(ranges)
        self._next.update({each: end for each, end in ends.items() if each in unread and each not in ranges})
        return all(self._next.get(each, -1) >= ends[each] for each in places)

    def _read_ranges(self, ranges: dict[TopicPartition, tuple[int, int]]) -> None:
        given = self._settings | {
            "max_partition_fetch_bytes": _FETCH_BYTES,
            "fetch_max_bytes": 4 * _FETCH_BYTES,
            "prefetch_max_bytes": 4 * _FETCH_BYTES,
            "fetch_max_wait_ms": 100,
            "default_timeout_ms": 10_000,
        }
        bootstrap = given.pop("bootstrap_servers", "localhost:9092")
        until = time.monotonic() + READ_S
        with BoundedConsumer(bootstrap, ranges, **given) as consumer:
            while consumer.unread and time.monotonic() < until:
                for record in consumer.poll(0.2, max_records=_POLL_RECORDS):
                    place = TopicPartition(record.topic, record.partition)
                    if record.offset < ranges[place][1]:
                        self._states.apply(record.key, record.value)
                        self._next[place] = record.offset + 1
            for place in ranges.keys() - set(consumer.unread):
                self._next[place] = ranges[place][1]
