"""Commits the records of a request with many results; if the commit fails, every result gets the error."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import ImageChange
from bowstring.engine.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices

RECORDS_MAX: Final = 10_000
"""Most records that one request may write to the metadata log, as in Kafka's controller."""

TOO_MANY: Final = "Unable to perform excessively large batch operation."
"""Kafka's message for a request that writes more."""


def check_not_too_many(records: int) -> None:
    """Refuses a request that would write too many records at once to the metadata log or take too long to
    check.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if records > RECORDS_MAX:
        raise KafkaError(Errors.POLICY_VIOLATION, TOO_MANY)


async def commit(
    broker: "BrokerServices",
    change: ImageChange,
    records: Sequence[MetadataRecord],
    results: Iterable[Any],
) -> None:
    """Commits and carries out `records`, within the change that they were decided in.

    Args:
        results: Results of the response, with error_code and error_message. If the metadata log or a log
            directory cannot be written, successful ones become KAFKA_STORAGE_ERROR.
    """
    try:
        await broker.changes.commit(change, records)
    except KafkaError as error:
        for result in results:
            if result.error_code == 0:
                result.error_code = error.code
                result.error_message = error.detail or error.error.message
