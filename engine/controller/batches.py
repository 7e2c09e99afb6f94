"""Splits the records of a decision into batches of the metadata log (KIP-868 where they belong together)."""

from collections.abc import Iterator, Sequence
from typing import Final

from bowstring.engine.controller.decision import RECORDS_MAX, TOO_MANY
from bowstring.engine.metadata.features import TRANSACTIONS_SINCE
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.markers import BeginTransactionRecord, EndTransactionRecord
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.security import AccessControlEntryRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionChangeRecord, PartitionRecord
from bowstring.protocol.schema import MetadataRecord

BATCH_BYTES: Final = 6 * 1024 * 1024
"""Most bytes of a batch, by the upper bounds below; the log takes 8 MiB."""

_SMALL: Final = 512
_ID_BYTES: Final = 5
_DIRECTORY_BYTES: Final = 16
_LETTER_BYTES: Final = 4


def split(
    records: Sequence[MetadataRecord], *, atomic: bool, metadata_version: int
) -> list[Sequence[MetadataRecord]]:
    """Returns the batches to append one after the other; those of an atomic change are one transaction.

    Raises:
        KafkaError: POLICY_VIOLATION: an atomic change is too large for one batch, and metadata.version is
            older than transactions.
    """
    batches = list(_batches(records))
    if len(batches) == 1 or not atomic:
        return batches
    if metadata_version < TRANSACTIONS_SINCE:
        raise KafkaError(Errors.POLICY_VIOLATION, TOO_MANY)
    return [[BeginTransactionRecord()], *batches, [EndTransactionRecord()]]


def _batches(records: Sequence[MetadataRecord]) -> Iterator[Sequence[MetadataRecord]]:
    start, size_bytes = 0, 0
    for at, record in enumerate(records):
        most = bytes_most(record)
        if at > start and (at - start == RECORDS_MAX or size_bytes + most > BATCH_BYTES):
            yield records[start:at]
            start, size_bytes = at, 0
        size_bytes += most
    yield records[start:]


def bytes_most(record: MetadataRecord) -> int:
    """Returns an upper bound of a record's bytes; encoding it only to measure it would take as long as the
    decision.
    """
    if isinstance(record, PartitionChangeRecord | PartitionRecord):
        replicas = (
            record.replicas,
            record.isr,
            record.adding_replicas,
            record.removing_replicas,
            record.eligible_leader_replicas,
            record.last_known_elr,
        )
        ids = sum(len(each) for each in replicas if each)
        return 128 + _ID_BYTES * ids + _DIRECTORY_BYTES * len(record.directories or ())
    if isinstance(record, ConfigRecord):
        letters = len(record.resource_name) + len(record.name) + len(record.value or "")
        return _SMALL + _LETTER_BYTES * letters
    if isinstance(record, AccessControlEntryRecord):
        return _SMALL + _LETTER_BYTES * (len(record.resource_name) + len(record.principal) + len(record.host))
    if isinstance(record, RegisterBrokerRecord):
        parts = len(record.end_points) + len(record.features)
        return _SMALL * (2 + parts) + _DIRECTORY_BYTES * len(record.log_dirs)
    return 2 * _SMALL
