"""Appends batches to partitions that this broker leads, and waits until they are committed."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from bowstring._native.log.partition_log import LogError
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring._native.log.partition_log import PartitionLog
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.storage.log_manager import LogManager

TopicPartition = tuple[str, int]


class _Waiting(NamedTuple):
    offset: int
    leader_epoch: int
    done: "asyncio.Future[Error]"


class CommittedAppends:
    """Appends as a producer with acks=all does. Used on the control loop only."""

    def __init__(self, logs: "LogManager", plane: "DataPlane") -> None:
        self._logs = logs
        self._plane = plane
        self._waiting: dict[TopicPartition, deque[_Waiting]] = {}

    def append(
        self, key: TopicPartition, batch: bytes, now_ms: int, *, transaction_version: int = 0
    ) -> Error | Awaitable[Error]:
        """Appends a batch; returns how that ended, at once if it is known."""
        log = self._logs.get(*key)
        if log is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        leader_epoch = self._plane.led_epoch(*key)
        try:
            offset = self._plane.append(
                *key,
                batch,
                leader_epoch=leader_epoch,
                now_ms=now_ms,
                transaction_version=transaction_version,
            )
        except LogError as error:
            return Errors.of(error.code)
        self._logs.control_writes += 1
        if not log.in_commit_mode and log.high_watermark > offset:
            return Errors.NONE
        return self._committed(key, log, offset + 1, leader_epoch)

    async def _committed(
        self, key: TopicPartition, log: "PartitionLog", offset: int, leader_epoch: int
    ) -> Error:
        if self._logs.get(*key) is not log:  # deleted, and perhaps created again, before this task began
            return Errors.NOT_LEADER_OR_FOLLOWER
        done: asyncio.Future[Error] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(key, deque())
        queue.append(_Waiting(offset, leader_epoch, done))
        if len(queue) == 1 and not self._plane.watch(*key, offset):
            self.advanced(*key)
        elif log.in_commit_mode:  # after the wait is noted, because a callback may come at once
            self._logs.durability.when_durable(log, lambda: self._durable(key), lambda: self.advanced(*key))
        return await done

    def _durable(self, key: TopicPartition) -> None:
        self._plane.durable(*key)
        self.advanced(*key)

    def advanced(self, topic: str, partition: int) -> None:
        """Ends waits for the partition's high watermark. Call it when `DataPlane.take_advanced` names it."""
        key = (topic, partition)
        queue = self._waiting.get(key)
        if queue is None:
            return
        while queue:
            first = queue[0]
            log = self._logs.get(topic, partition)
            if first.done.done():
                queue.popleft()
                continue
            if log is None or log.failed or self._plane.led_epoch(topic, partition) != first.leader_epoch:
                _end(queue.popleft(), Errors.NOT_LEADER_OR_FOLLOWER)
            elif log.high_watermark >= first.offset:
                _end(queue.popleft(), Errors.NONE)
            elif self._plane.watch(topic, partition, first.offset):
                return
        del self._waiting[key]

    def topic_deleted(self, topic: str) -> None:
        """Ends all waits in a topic, whose partitions the data plane does not name any more. One that is
        created again under the name begins without them.
        """
        for key in [key for key in self._waiting if key[0] == topic]:
            for each in self._waiting.pop(key):
                _end(each, Errors.UNKNOWN_TOPIC_OR_PARTITION)

    def stop(self) -> bool:
        """Ends all waits; returns whether there were any."""
        for queue in self._waiting.values():
            for each in queue:
                _end(each, Errors.NOT_LEADER_OR_FOLLOWER)
        waited = bool(self._waiting)
        self._waiting.clear()
        return waited


def _end(waiting: _Waiting, error: Error) -> None:
    if not waiting.done.done():
        waiting.done.set_result(error)
