"""Committing what a request with many results asks for: when that fails, each result says so."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bowstring.engine.errors import KafkaError
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker


async def commit(broker: "Broker", records: Sequence[MetadataRecord], results: Iterable[Any]) -> None:
    """Commits and carries out `records`; inside ``metadata.changing()``.

    Args:
        results: What the response holds, with error_code and error_message: those that are good so far turn
            into KAFKA_STORAGE_ERROR when the metadata log, or a log directory, cannot be written.
    """
    try:
        await broker.changes.commit(records)
    except KafkaError as error:
        for result in results:
            if result.error_code == 0:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
