"""Reads the counts topic of one or several clusters into a table."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from bowstring.audit.count_message import parse_count
from bowstring.audit.count_table import CountTable
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import UnknownTopicError
from bowstring.clients.records import Record, TopicPartition

POLL_RECORDS = 5_000
READ_S = 0.5


class CountsReader:
    """Fills a table from the counts topics of clusters, from what is kept on.

    Args:
        clusters: bootstrap servers of each cluster.
        topic: name of the counts topic in each of them.
        table: where the counts go.
        security: settings of TLS and SASL, for all clusters.

    Attributes:
        undecodable: records that are no reports.

    Raises:
        UnknownTopicError: a cluster has no such topic; nothing has been reported there.
        ClientError: a cluster does not answer.
    """

    def __init__(
        self,
        clusters: Sequence[str],
        topic: str,
        table: CountTable,
        security: Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self.table, self.topic = table, topic
        self.undecodable = 0
        self._consumers: list[Consumer] = []
        self._ends: list[dict[TopicPartition, int]] = []
        try:
            for bootstrap in clusters:
                self._open(bootstrap, security, timeout_s)
        except BaseException:
            self.close()
            raise

    def _open(self, bootstrap: str, security: Mapping[str, Any] | None, timeout_s: float) -> None:
        consumer = Consumer(
            bootstrap,
            client_id="bowstring-audit",
            auto_offset_reset="earliest",
            security=security,
            allow_auto_create=False,
            max_poll_records=POLL_RECORDS,
            default_timeout_ms=int(timeout_s * 1000),
        )
        self._consumers.append(consumer)
        try:
            partitions = consumer.partitions_for(self.topic, timeout_s)
        except UnknownTopicError as error:
            raise UnknownTopicError(
                error.code,
                f"there is no topic {self.topic!r} at {bootstrap}: no client has reported counts there. Give "
                "clients audit.tier (docs/how-to/audit.md), or name the topic with --counts-topic",
            ) from None
        consumer.assign(partitions)
        since_ms = now_ms() - self.table.keep_ms
        ends = consumer.end_offsets(partitions)
        starts = consumer.offsets_for_times(dict.fromkeys(partitions, since_ms))
        for partition, found in starts.items():
            # Where nothing is found all that was there is older.
            consumer.seek(partition, ends[partition] if found is None else found.offset)
        self._ends.append(ends)

    @property
    def caught_up(self) -> bool:
        """Whether everything was read that was there at the start."""
        return self.left == 0

    @property
    def left(self) -> int:
        """How many records of the counts topics that were there at the start are not read, at most."""
        return sum(
            max(0, end - positions.get(partition, 0))
            for positions, ends in zip(self.positions, self._ends, strict=True)
            for partition, end in ends.items()
        )

    @property
    def positions(self) -> list[dict[TopicPartition, int]]:
        """The offsets to go on at, by cluster."""
        return [consumer.positions() for consumer in self._consumers]

    def go_on(self, positions: Sequence[Mapping[TopicPartition, int]]) -> None:
        """Skips what a reader before with the same clusters has read into the same table.

        Args:
            positions: where that one ended.
        """
        for consumer, ends, known in zip(self._consumers, self._ends, positions, strict=True):
            for partition, at in consumer.positions().items():
                if at < known.get(partition, at) <= ends[partition]:
                    consumer.seek(partition, known[partition])

    def read(self, timeout_s: float) -> int:
        """Reads what has arrived, waiting up to `timeout_s` seconds in all; returns the number of records."""
        records = self.poll(timeout_s)
        self.note(records)
        return len(records)

    def poll(self, timeout_s: float) -> list[Record]:
        """Returns what has arrived, waiting up to `timeout_s` seconds in all, for `note`."""
        share_s = timeout_s / len(self._consumers)
        return [record for consumer in self._consumers for record in consumer.poll(share_s)]

    def note(self, records: Iterable[Record]) -> None:
        """Puts the counts in records of a counts topic into the table."""
        for record in records:
            count = parse_count(record.value)
            if count is None:
                self.undecodable += record.value is not None
            else:
                self.table.add(count, now_ms())

    def read_all(self, most_s: float = math.inf) -> bool:
        """Reads everything that was there at the start, for about `most_s` seconds and at least one poll;
        returns whether that was enough.
        """
        end = time.monotonic() + most_s
        while not self.caught_up:
            self.read(READ_S)
            if time.monotonic() >= end:
                break
        return self.caught_up

    def close(self) -> None:
        """Closes the connections."""
        for consumer in self._consumers:
            consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def now_ms() -> int:
    """Returns the time in ms since the epoch."""
    return time.time_ns() // 1_000_000
