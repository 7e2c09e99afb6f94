"""Asks the coordinator about produced batches that may begin a transaction in their partition (KIP-890)."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring._native.server.control_request import SlowBatch
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import event_log
from bowstring.engine.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices

_Key = tuple[str, int, int]

ADDING_VERSION: Final = 12
"""Version of Produce since which the broker adds partitions to the transaction."""
_ABORTABLE_VERSION: Final = 11

_OF_COORDINATOR: Final = frozenset(
    {
        Errors.NETWORK_EXCEPTION,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
        Errors.UNKNOWN_SERVER_ERROR,
    }
)


def produce_error(error: Error, version: int) -> tuple[Error, str | None]:
    """Returns the error that a producer expects for a coordinator's refusal, and the text for it. A retriable
    one that old clients do not know becomes NOT_ENOUGH_REPLICAS.
    """
    adds = version >= ADDING_VERSION
    if error in _OF_COORDINATOR or (error is Errors.CONCURRENT_TRANSACTIONS and not adds):
        return Errors.NOT_ENOUGH_REPLICAS, (
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{error.name}"
        )
    if error is Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH, None
    if error is Errors.TRANSACTION_ABORTABLE and version < _ABORTABLE_VERSION:
        return Errors.INVALID_TXN_STATE, "Partition was not added to the transaction"
    return error, None


class TransactionChecks:
    """Checks batches. Those of one producer and partition stay in order; others do not wait for them. Used on
    the control loop only.

    Args:
        pass_on: Takes a batch that may be appended.
    """

    def __init__(
        self, services: "BrokerServices", plane: DataPlane, pass_on: Callable[[SlowBatch], None]
    ) -> None:
        self._services = services
        self._plane = plane
        self._pass_on = pass_on
        self._queues: dict[_Key, deque[SlowBatch]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def take(self, slow: SlowBatch) -> None:
        """Accepts a batch with a transaction; it is answered or passed on."""
        assert slow.transaction is not None, slow
        if self._stopped:
            self._refuse(slow, Errors.REQUEST_TIMED_OUT, None)
            return
        key = (slow.topic, slow.partition, slow.transaction[1])
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(slow)
            return
        self._queues[key] = deque((slow,))
        task = asyncio.get_running_loop().create_task(self._serve(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, key: _Key) -> None:
        queue = self._queues[key]
        while queue:
            transaction = queue[0].transaction
            assert transaction is not None, queue[0]
            error, reason = await self._check(key, transaction)
            # The answer counts for all that wait with the same question: later ones may not overtake a
            # refused one.
            while queue and queue[0].transaction == transaction:
                slow = queue.popleft()
                if error:
                    self._refuse(slow, error, reason)
                else:
                    self._pass_on(slow)
        del self._queues[key]

    async def _check(self, key: _Key, transaction: tuple[str, int, int, int]) -> tuple[Error, str | None]:
        version = transaction[3]
        try:
            error = await self._services.verify_transaction(
                transaction[:3], key[:2], adds=version >= ADDING_VERSION
            )
        except Exception:
            event_log.error(
                "bug: a transaction could not be verified, so its producer repeats the batch; report the "
                "traceback",
                traceback=True,
                transactional_id=transaction[0],
            )
            error = Errors.COORDINATOR_NOT_AVAILABLE
        return produce_error(error, version)

    def _refuse(self, slow: SlowBatch, error: Error, reason: str | None) -> None:
        self._plane.finish_batch(slow, error=error.code, reason=reason)

    async def stop(self) -> None:
        """Answers every batch that waits; producers send them again."""
        self._stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for queue in self._queues.values():
            for slow in queue:
                self._refuse(slow, Errors.REQUEST_TIMED_OUT, None)
        self._queues.clear()
