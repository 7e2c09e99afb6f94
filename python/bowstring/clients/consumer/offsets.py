"""Implements Consumer's methods for offsets of the log and committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.consumer.coordinator import ConsumerCoordinator, OnCommit
from bowstring.clients.consumer.partition_state import Positions
from bowstring.clients.errors import ConfigError
from bowstring.clients.group.offset_queries import list_offsets
from bowstring.clients.group.offset_requests import with_metadata
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Record,
    TopicPartition,
)
from bowstring.clients.single_thread import SingleThread


class ConsumerOffsets:
    """Mixed into Consumer, which provides the connections and the group."""

    _cluster: ClusterMetadata
    _group: ConsumerCoordinator | None
    _owner: SingleThread
    _positions: Positions
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

    # ------------------------------------------------------------ committing

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record | None = None,
        *,
        asynchronous: bool = False,
        on_commit: OnCommit | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commits the group's progress: `offsets`, or the positions of all partitions.

        With `asynchronous` it returns at once. Errors are then passed to `on_commit`, or raised by a later
        `poll`.

        Args:
            offsets: offset of the next record to read, by partition; or the record processed last in its
                partition.
            asynchronous: returns before the offsets are stored.
            on_commit: called with the offsets and None, or the error, during a later call of the consumer.
            timeout: seconds to wait until they are stored; None for default_timeout_ms.

        Raises:
            CommitFailedError: the group has reassigned the partitions meanwhile.
            NoBrokerError, BrokerError: not stored within `timeout` seconds.
        """
        with self._owner:
            given = self._positions.consumed() if offsets is None else with_metadata(offsets)
            group = self._need_group()
            self._positions.said_finished(given)
            if asynchronous:
                group.commit_asynchronously(given, on_commit)
                return
            group.commit(given, self._seconds(timeout))
            if on_commit is not None:
                on_commit(given, None)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets for `partitions`; None for partitions without one.

        Args:
            partitions: topics and partition numbers.
            timeout: seconds to wait for brokers; None for default_timeout_ms.

        Raises:
            NoBrokerError, BrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            asked = list(partitions)
            found = self._need_group().committed(asked, self._seconds(timeout))
            return {partition: found.get(partition) for partition in asked}

    def _need_group(self) -> ConsumerCoordinator:
        if self._group is None:
            raise ConfigError("commit needs a group_id: give one to Consumer")
        return self._group
