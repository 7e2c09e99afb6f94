"""Defines what a decision of the controller returns: the records that make it, and the answer."""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.schema import MetadataRecord

A = TypeVar("A")

RECORDS_MAX: Final = 10_000
"""Most records of one request by a user, and of one batch, as in Kafka's controller."""

TOO_MANY: Final = "Unable to perform excessively large batch operation."
"""Kafka's message for a request that writes more."""


class Decision(NamedTuple, Generic[A]):
    """Records to append, and the answer once they are committed.

    Attributes:
        records: The change. Empty when nothing changes; the answer then waits for earlier appends,
            because the decision may rest on it.
        answer: What the caller gets.
        atomic: Whether the records take effect together or not at all, however many they are.
        kraft_version: The version of the quorum that the change includes, besides the records (KIP-853).
        appended: Called with the offset of the last record appended, once the records are in the log.
    """

    records: list[MetadataRecord]
    answer: A
    atomic: bool = True
    appended: Callable[[int], None] | None = None
    kraft_version: int | None = None


def check_not_too_many(records: int) -> None:
    """Refuses a request that would write too many records at once to the metadata log, or take too long to
    check.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if records > RECORDS_MAX:
        raise KafkaError(Errors.POLICY_VIOLATION, TOO_MANY)
