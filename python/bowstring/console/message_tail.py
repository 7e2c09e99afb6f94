"""Follows the end of a topic: its true rate from end offsets, and samples of its newest records.

Only small pieces at the end of a few partitions are fetched, whatever the topic's rate is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bowstring.clients.consumer.range_reader import BoundedConsumer
from bowstring.clients.errors import ClosedError, ConfigError
from bowstring.clients.records import TopicPartition
from bowstring.search.record_filter import Matcher, RecordFilter
from bowstring.search.record_search import FoundRecord, cut_record
from bowstring.search.value_decoder import ValueDecoder

SAMPLED_PARTITIONS = 4
SAMPLED_OFFSETS = 200
SLOW_PARTITIONS = 50
SHOWN_MAX = 20
"""Records that one look adds."""
KEPT_BYTES = 4_096
_FETCH_BYTES = 64 << 10
SAMPLE_S = 0.5
_RATE_LOOKS = 5
_TOPIC_S = 2.0


@dataclass(frozen=True, slots=True)
class TailLook:
    """What one look at the end found.

    Attributes:
        found: samples that match, oldest first.
        rate: records per second of the topic; None before the second look.
        sampled: records looked at.
        new: records that came since the last look.
    """

    found: list[FoundRecord]
    rate: float | None
    sampled: int
    new: int


class MessageTail:
    """Follows the end of a topic. Calls block; any thread may call.

    Args:
        settings: of Consumer.
        topic: its name.
        partitions: their numbers; none are all.
        wanted: what samples must have.
        decoder: of values, for expressions.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        partitions: tuple[int, ...],
        wanted: RecordFilter,
        decoder: ValueDecoder,
    ):
        self._settings, self._topic, self._chosen = dict(settings), topic, partitions
        self._matcher = Matcher(wanted, decoder)
        self._lock = threading.Lock()
        self._consumer: BoundedConsumer | None = None
        self._closed = False
        self._partitions: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        self._totals: deque[tuple[float, int]] = deque(maxlen=_RATE_LOOKS)
        self._turn = 0

    def look(self) -> TailLook:
        """Returns the rate, and samples of what came since the last look.

        Raises:
            ClientError: brokers do not answer, or refuse; the tail is closed.
        """
        with self._lock:
            if self._closed:
                raise ClosedError("this tail has ended: load the page again")
            consumer = self._consumer or self._open()
            ends = consumer.end_offsets(self._partitions)
            before, self._ends = self._ends, ends
            self._totals.append((time.monotonic(), sum(ends.values())))
            new = {p: end - before.get(p, end) for p, end in ends.items() if end > before.get(p, end)}
            sampled, found = self._samples(consumer, new, ends) if new else (0, [])
            return TailLook(found, self._rate(), sampled, sum(new.values()))

    def close(self) -> None:
        """Closes the connections, after a look that is under way."""
        with self._lock:
            self._closed = True
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _open(self) -> BoundedConsumer:
        given = self._settings | {
            "fetch_max_bytes": SAMPLED_PARTITIONS * _FETCH_BYTES,
            "max_partition_fetch_bytes": _FETCH_BYTES,
            "prefetch_max_bytes": SAMPLED_PARTITIONS * _FETCH_BYTES,
            "fetch_max_wait_ms": 100,
            "default_timeout_ms": 10_000,
        }
        bootstrap = given.pop("bootstrap_servers", "localhost:9092")
        self._consumer = consumer = BoundedConsumer(bootstrap, {}, **given)
        every = consumer.partitions_for(self._topic, _TOPIC_S)
        missing = sorted(set(self._chosen) - {p.partition for p in every})
        if missing:
            raise ConfigError(f"topic {self._topic!r} has partitions 0 to {len(every) - 1}, not {missing[0]}")
        self._partitions = [p for p in every if not self._chosen or p.partition in self._chosen]
        return consumer

    def _rate(self) -> float | None:
        (first_at, first), (last_at, last) = self._totals[0], self._totals[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else None

    def _samples(
        self, consumer: BoundedConsumer, new: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> tuple[int, list[FoundRecord]]:
        """Reads the ends of some partitions, others in each look; returns how many records, and matches."""
        places = sorted(new)
        start = self._turn % len(places)
        # Few new records are all read.
        most = SLOW_PARTITIONS if sum(new.values()) <= SAMPLED_OFFSETS else SAMPLED_PARTITIONS
        chosen = (places[start:] + places[:start])[:most]
        self._turn += len(chosen)
        share = SAMPLED_OFFSETS // len(chosen)
        ranges = {p: (ends[p] - min(new[p], share), ends[p]) for p in chosen}
        consumer.restrict(ranges)
        until = time.monotonic() + SAMPLE_S
        sampled = 0
        found: deque[FoundRecord] = deque(maxlen=SHOWN_MAX)
        while consumer.unread and time.monotonic() < until:
            for record in consumer.poll(0.1, max_records=SAMPLED_OFFSETS):
                begin, end = ranges[TopicPartition(record.topic, record.partition)]
                if begin <= record.offset < end:
                    sampled += 1
                    if self._matcher.matches(record):
                        found.append(cut_record(record, KEPT_BYTES))
        return sampled, sorted(found, key=lambda each: each.record.timestamp)
