"""Declares what commits the decisions of request handlers."""

from collections.abc import Sequence
from typing import Protocol

from bowstring.engine.metadata.image import ImageChange
from bowstring.protocol.schema import MetadataRecord


class Committer(Protocol):
    """Commits decisions of request handlers, on a single node and on the active controller."""

    async def commit(self, change: ImageChange, records: Sequence[MetadataRecord]) -> None:
        """Commits records, within the change that they were decided in.

        Raises:
            KafkaError: The records could not be written, or not all of their effects are there yet.
        """
