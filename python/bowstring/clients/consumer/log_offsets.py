"""Implements Consumer's methods for offsets of the log: its first and last ones, and those of times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.group.offset_queries import list_offsets
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndTimestamp,
    TopicPartition,
)
from bowstring.clients.single_thread import SingleThread


class LogOffsets:
    """Mixed into Consumer, which provides the connections."""

    _cluster: ClusterMetadata
    _owner: SingleThread
    _read_committed: bool

    if TYPE_CHECKING:

        def _seconds(self, timeout: float | None) -> float: ...

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after each timestamp (ms since the epoch); None where there is
        none.

        Args:
            timestamps: milliseconds since the epoch, by partition.
            timeout: seconds to wait for brokers; None for default_timeout_ms.
        """
        with self._owner:
            return list_offsets(self._cluster, timestamps, self._read_committed, self._seconds(timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition.

        Args:
            partitions: topics and partition numbers.
            timeout: seconds to wait for brokers; None for default_timeout_ms.
        """
        return self._ends(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last record of each partition (the last stable offset with
        read_committed).

        Args:
            partitions: topics and partition numbers.
            timeout: seconds to wait for brokers; None for default_timeout_ms.
        """
        return self._ends(partitions, LATEST_TIMESTAMP, timeout)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._owner:
            asked = dict.fromkeys(partitions, timestamp)
            found = list_offsets(self._cluster, asked, self._read_committed, self._seconds(timeout))
            return {partition: answer.offset for partition, answer in found.items() if answer is not None}
