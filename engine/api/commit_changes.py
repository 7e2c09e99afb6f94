"""Commits the records of a request with many results; if the commit fails, every result gets the error."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bowstring.engine.metadata.image import ImageChange
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.metadata.committer import Committer


async def commit(
    committer: "Committer", change: ImageChange, records: Sequence[MetadataRecord], results: Iterable[Any]
) -> None:
    """Commits and carries out `records`, within the change that they were decided in.

    Args:
        results: Results of the response, with error_code and error_message. If the metadata log or a log
            directory cannot be written, successful ones become KAFKA_STORAGE_ERROR.
    """
    try:
        await committer.commit(change, records)
    except KafkaError as error:
        for result in results:
            if result.error_code == 0:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
