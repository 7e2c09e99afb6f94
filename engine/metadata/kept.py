"""Metadata records of features that this version does not act on: kept as they are, so that none is lost.

They are replayed, written to snapshots, and found again by an Apache Kafka that takes the directory over.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

from bowstring.engine.protocol.records.cluster_metadata import nodes, security, settings
from bowstring.engine.protocol.schema import MetadataRecord

# What is still there under one key is the last record of its key, so a key names what a record is about.
_KEYS: Final[dict[type[MetadataRecord], Callable[[Any], Hashable]]] = {
    nodes.RegisterControllerRecord: lambda record: record.controller_id,
    settings.ClientQuotaRecord: lambda record: (
        tuple(
            sorted(
                (each.entity_type, each.entity_name or "", each.entity_name is None) for each in record.entity
            )
        ),
        record.key,
    ),
    security.UserScramCredentialRecord: lambda record: (record.name, record.mechanism),
    security.DelegationTokenRecord: lambda record: record.token_id,
    security.AccessControlEntryRecord: lambda record: record.id,
}
_REMOVALS: Final[dict[type[MetadataRecord], tuple[type[MetadataRecord], Callable[[Any], Hashable]]]] = {
    security.RemoveUserScramCredentialRecord: (
        security.UserScramCredentialRecord,
        lambda record: (record.name, record.mechanism),
    ),
    security.RemoveDelegationTokenRecord: (security.DelegationTokenRecord, lambda record: record.token_id),
    security.RemoveAccessControlEntryRecord: (
        security.AccessControlEntryRecord,
        lambda record: record.id,
    ),
}

KEPT_RECORDS: Final[tuple[type[MetadataRecord], ...]] = (*_KEYS, *_REMOVALS)
"""The records that `KeptRecords.apply` takes."""

KEPT_IN_ORDER: Final[tuple[type[MetadataRecord], ...]] = (
    security.AccessControlEntryRecord,
    security.UserScramCredentialRecord,
    security.DelegationTokenRecord,
)
"""Those that end a snapshot, in Kafka's order."""


class KeptRecords:
    """What records left, by what they are about. A removal of what is not there changes nothing."""

    def __init__(self) -> None:
        self._records: dict[type[MetadataRecord], dict[Hashable, MetadataRecord]] = {}

    def apply(self, record: MetadataRecord) -> None:
        """Keeps a record in the place of an older one about the same thing, or forgets what it removes."""
        kind = type(record)
        if kind in _REMOVALS:
            removed, key_of = _REMOVALS[kind]
            self._records.get(removed, {}).pop(key_of(record), None)
            return
        same_kind = self._records.setdefault(kind, {})
        key = _KEYS[kind](record)
        if isinstance(record, settings.ClientQuotaRecord) and record.remove:
            same_kind.pop(key, None)
        else:
            same_kind[key] = record

    def of(self, kind: type[MetadataRecord]) -> Iterator[MetadataRecord]:
        """The records of a kind that count now."""
        return iter(self._records.get(kind, {}).values())

    def __len__(self) -> int:
        return sum(len(records) for records in self._records.values())
