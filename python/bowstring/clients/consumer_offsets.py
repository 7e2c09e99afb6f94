"""Consumer's part for offsets: those of the log, and those that its group has stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.cluster import Cluster
from bowstring.clients.errors import ConfigError
from bowstring.clients.membership import Membership, OnCommit
from bowstring.clients.offset_queries import list_offsets
from bowstring.clients.offsets import with_metadata
from bowstring.clients.ownership import OneThread
from bowstring.clients.positions import Positions
from bowstring.clients.records import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Record,
    TopicPartition,
)


class ConsumerOffsets:
    """Mixed into Consumer, which gives the connections and the group."""

    _cluster: Cluster
    _group: Membership | None
    _owner: OneThread
    _positions: Positions
    _read_committed: bool

    if TYPE_CHECKING:

        def _seconds(self, timeout: float | None) -> float: ...

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """First record at or after each timestamp (ms since the epoch); None where there is none."""
        with self._owner:
            return list_offsets(self._cluster, timestamps, self._read_committed, self._seconds(timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """First offset of each partition."""
        return self._ends(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition (of what is committed, with read_committed)."""
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
        """Stores how far the group has read: `offsets`, or the positions of all partitions.

        With `asynchronous` it returns at once, and what goes wrong is raised by a later `poll`, or given to
        `on_commit`.

        Args:
            offsets: of the next record to read, by partition; or the record last dealt with in its partition.
            on_commit: called with the offsets and None, or the error, within a later call of the consumer.

        Raises:
            CommitFailedError: the group gave the partitions to another member meanwhile.
            NoBrokerError, BrokerError: not stored within `timeout` seconds.
        """
        with self._owner:
            given = self._positions.consumed() if offsets is None else with_metadata(offsets)
            group = self._need_group()
            if asynchronous:
                group.commit_asynchronously(given, on_commit)
                return
            group.commit(given, self._seconds(timeout))
            if on_commit is not None:
                on_commit(given, None)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has stored for `partitions`; None where it has nothing.

        Raises:
            NoBrokerError, BrokerError: not answered within `timeout` seconds.
        """
        with self._owner:
            asked = list(partitions)
            found = self._need_group().committed(asked, self._seconds(timeout))
            return {partition: found.get(partition) for partition in asked}

    def _need_group(self) -> Membership:
        if self._group is None:
            raise ConfigError("committing needs a group_id")
        return self._group
