"""Allocates producer ids from blocks recorded in the metadata log, so that no id is given twice."""

import asyncio
from typing import Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine.metadata.image import Metadata
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.settings import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
"""Number of ids in a block (KIP-730)."""


class ProducerIds:
    """Allocates ids. As in Kafka, the rest of a block is lost when the broker stops."""

    def __init__(self, metadata: Metadata, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._turn = asyncio.Lock()

    async def allocate(self) -> int:
        """Returns a producer id that was never used.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when the metadata log cannot be written.
        """
        while self._next >= self._end:
            async with self._turn:
                if self._next >= self._end:  # else another request got a block while this one waited
                    self._next, self._end = await self.next_block()
        self._next += 1
        return self._next - 1

    async def next_block(self) -> tuple[int, int]:
        """Returns the first id of a new block, and the one after its last.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when the metadata log cannot be written.
        """
        async with self._metadata.changing() as change:
            image = change.image
            first = image.next_producer_id
            record = ProducerIdsRecord(
                broker_id=self._node_id,
                broker_epoch=image.brokers[self._node_id].epoch,
                next_producer_id=first + BLOCK_SIZE,
            )
            try:
                await change.commit([record])
            except LogError as error:
                raise KafkaError(
                    Errors.KAFKA_STORAGE_ERROR, f"the metadata log cannot be written: {error}"
                ) from error
            return first, first + BLOCK_SIZE
