"""Checks with the coordinator the batches that may begin a transaction in their partition (KIP-890)."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring._native.server.control_request import SlowBatch
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import background, event_log
from bowstring.engine.transactions.partitions import Producer
from bowstring.protocol.errors import Error, Errors

if TYPE_CHECKING:
    from bowstring.engine.transactions.verifier import TransactionVerifier

_Key = tuple[str, int, int]
"""Topic, partition, producer id."""
_Transaction = tuple[str, int, int, int]
"""Transactional id, producer id, epoch, version of Produce."""

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
    one that is new to old clients becomes NOT_ENOUGH_REPLICAS.
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
        verifier: Queries the coordinators of transactions.
        pass_on: Takes a batch that may be appended.
    """

    def __init__(
        self, verifier: "TransactionVerifier", plane: DataPlane, pass_on: Callable[[SlowBatch], None]
    ) -> None:
        self._verifier = verifier
        self._plane = plane
        self._pass_on = pass_on
        self._queues: dict[_Key, deque[SlowBatch]] = {}
        # partitions whose first batch came in this pass of the loop: one question for all of a request
        self._asked: dict[_Transaction, list[_Key]] = {}
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
        self._ask(slow.transaction, key)

    def _ask(self, transaction: _Transaction, key: _Key) -> None:
        keys = self._asked.get(transaction)
        if keys is not None:
            keys.append(key)
            return
        self._asked[transaction] = [key]
        background.spawn(self._serve(transaction), "checks of transactions", among=self._tasks)

    async def _serve(self, transaction: _Transaction) -> None:
        keys = self._asked.pop(transaction)
        errors = await self._check(transaction, [key[:2] for key in keys])
        for key in keys:
            error, reason = produce_error(errors[key[:2]], transaction[3])
            queue = self._queues[key]
            # The answer counts for all that wait with the same question: later ones may not overtake a
            # refused one.
            while queue and queue[0].transaction == transaction:
                slow = queue.popleft()
                if error:
                    self._refuse(slow, error, reason)
                else:
                    self._pass_on(slow)
            if queue:
                following = queue[0].transaction
                assert following is not None, queue[0]
                self._ask(following, key)
            else:
                del self._queues[key]

    async def _check(
        self, transaction: _Transaction, partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], Error]:
        try:
            return await self._verifier.verify(
                Producer(*transaction[:3]), partitions, adds=transaction[3] >= ADDING_VERSION
            )
        except Exception:
            event_log.error(
                "bug: a transaction could not be verified, so its producer repeats the batch; report the "
                "traceback",
                traceback=True,
                transactional_id=transaction[0],
            )
            return dict.fromkeys(partitions, Errors.COORDINATOR_NOT_AVAILABLE)

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
