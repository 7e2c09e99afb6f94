"""Writes transaction markers to the partitions that this broker leads (WriteTxnMarkers)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.record.encode import encode_batch
from bowstring.engine import event_log
from bowstring.engine.coordinators.committed_appends import CommittedAppends
from bowstring.engine.metadata.names import GROUPS_TOPIC
from bowstring.engine.transactions.transaction import TopicPartition
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.records.control_batch import (
    ControlRecordType,
    encode_control_key,
    encode_end_txn_marker,
)

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.storage.log_manager import LogManager


class Marker(NamedTuple):
    """The end of a producer's transaction.

    Attributes:
        coordinator_epoch: The leader epoch of the coordinator's partition.
        version: The transaction version under which it ended.
    """

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int
    version: int

    def batch(self, now_ms: int) -> bytes:
        """Encodes the control batch."""
        kind = ControlRecordType.COMMIT if self.commit else ControlRecordType.ABORT
        return encode_batch(
            [(encode_control_key(kind), encode_end_txn_marker(self.coordinator_epoch), now_ms, ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transactional=True,
            control=True,
        )


MarkGroup = Callable[[int, Marker], Awaitable[Error]]
"""Ends a transaction in a partition of ``__consumer_offsets``; returns its error."""


# Markers that are written before other work of the control thread gets its turn.
_WRITTEN_AT_ONCE: Final = 200
_NOT_COORDINATOR: Final = frozenset(
    {Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR}
)


class MarkerWriter:
    """Appends markers, and waits until they are committed. Used on the control loop only.

    Args:
        mark_group: Ends transactions in the group coordinator.
    """

    def __init__(
        self, configs: "BrokerConfigs", logs: "LogManager", plane: "DataPlane", mark_group: MarkGroup
    ) -> None:
        self._configs = configs
        self._mark_group = mark_group
        self._appends = CommittedAppends(logs, plane)

    async def write(
        self, marker: Marker, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Error]:
        """Writes a marker to partitions; returns their errors once the others are committed."""
        if marker.producer_id < 0:  # its batch would be one without a producer
            return dict.fromkeys(partitions, Errors.INVALID_REQUEST)
        errors: dict[TopicPartition, Error] = {}
        # Most markers are committed at once. A task and a timer for each would cost more than writing it.
        waiting: dict[TopicPartition, Awaitable[Error]] = {}
        now_ms = time.time_ns() // 1_000_000
        batch = marker.batch(now_ms)
        for number, each in enumerate(partitions, 1):
            if number % _WRITTEN_AT_ONCE == 0:
                await asyncio.sleep(0)
            outcome = (
                self._mark_offsets(each[1], marker)
                if each[0] == GROUPS_TOPIC
                else self._appends.append(each, batch, now_ms, transaction_version=marker.version)
            )
            if isinstance(outcome, Error):
                errors[each] = outcome
            else:
                waiting[each] = self._in_time(outcome)
        if waiting:
            errors |= zip(waiting, await asyncio.gather(*waiting.values()), strict=True)
        return errors

    async def _in_time(self, outcome: Awaitable[Error]) -> Error:
        try:
            async with asyncio.timeout(self._configs.value("request.timeout.ms") / 1000):
                return await outcome
        except TimeoutError:
            return Errors.REQUEST_TIMED_OUT

    async def _mark_offsets(self, partition: int, marker: Marker) -> Error:
        try:
            error = await self._mark_group(partition, marker)
        except KafkaError as refused:
            error = refused.error
        return Errors.NOT_LEADER_OR_FOLLOWER if error in _NOT_COORDINATOR else error

    def advanced(self, topic: str, partition: int) -> None:
        """Ends waits for the partition's high watermark. Call it when `DataPlane.take_advanced` names it."""
        self._appends.advanced(topic, partition)

    def topic_deleted(self, topic: str) -> None:
        """Ends all waits in a deleted topic."""
        self._appends.topic_deleted(topic)

    def stop(self) -> None:
        """Ends all waits."""
        if self._appends.stop():
            event_log.info("markers of transactions are not confirmed because the broker stops")
