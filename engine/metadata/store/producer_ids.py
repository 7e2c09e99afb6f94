"""Allocates producer ids from blocks recorded in the metadata log, so that no id is given twice."""

from typing import Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import Metadata
from bowstring.engine.protocol.records.cluster_metadata.settings import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
"""Number of ids in a block (KIP-730)."""


class ProducerIds:
    """Allocates ids. As in Kafka, the rest of a block is lost when the broker stops."""

    def __init__(self, metadata: Metadata, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._next = 0
        self._end = 0

    async def allocate(self) -> int:
        """Returns a producer id that was never used.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when the metadata log cannot be written.
        """
        while self._next >= self._end:
            async with self._metadata.changing() as image:
                if self._next < self._end:
                    break  # another request allocated a block while this one waited
                first = image.next_producer_id
                broker = image.brokers[self._node_id]
                try:
                    await self._metadata.commit(
                        [
                            ProducerIdsRecord(
                                broker_id=self._node_id,
                                broker_epoch=broker.epoch,
                                next_producer_id=first + BLOCK_SIZE,
                            )
                        ]
                    )
                except LogError as error:
                    raise KafkaError(
                        Errors.KAFKA_STORAGE_ERROR, f"the metadata log cannot be written: {error}"
                    ) from error
                self._next, self._end = first, first + BLOCK_SIZE
        self._next += 1
        return self._next - 1
