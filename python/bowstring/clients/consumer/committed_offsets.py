"""Implements Consumer's methods for committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.consumer.coordinator import ConsumerCoordinator, OnCommit
from bowstring.clients.consumer.partition_state import Positions
from bowstring.clients.errors import ConfigError
from bowstring.clients.group.offset_requests import with_metadata
from bowstring.clients.records import OffsetAndMetadata, Record, TopicPartition
from bowstring.clients.single_thread import SingleThread


class CommittedOffsets:
    """Mixed into Consumer, which provides the group."""

    _group: ConsumerCoordinator | None
    _owner: SingleThread
    _positions: Positions

    if TYPE_CHECKING:

        def _seconds(self, timeout: float | None) -> float: ...

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
