"""Gives out producer ids from blocks that the active controller allocates, so that no id is given twice."""

import asyncio
from collections.abc import Callable
from typing import Any

from bowstring.engine.coordinators.cluster_changes import Quorum
from bowstring.protocol.errors import Errors, KafkaError


class ProducerIds:
    """Gives out ids of one block after the other (KIP-730). As in Kafka, the rest of a block is lost when the
    broker stops.
    """

    def __init__(self, quorum: Quorum, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._quorum = quorum
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._turn = asyncio.Lock()

    async def allocate(self) -> int:
        """Returns a producer id that was never used.

        Raises:
            KafkaError: The controller has refused a new block, or there is none.
        """
        while self._next >= self._end:
            async with self._turn:
                if self._next >= self._end:  # else another request got a block while this one waited
                    self._next, self._end = await self._next_block()
        self._next += 1
        return self._next - 1

    async def _next_block(self) -> tuple[int, int]:
        """Returns the first id of a new block, and the one after its last."""
        from bowstring.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        answer: Any = await self._quorum.ask_leader(request)
        if answer.error_code == Errors.UNKNOWN_SERVER_ERROR.code:
            # An idempotent producer would act on that; this makes it retry, as in Kafka.
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
        return answer.producer_id_start, answer.producer_id_start + answer.producer_id_len
