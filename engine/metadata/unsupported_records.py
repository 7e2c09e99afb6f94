"""Keeps metadata records of features that this version does not implement, so that none is lost.

They are replayed, written to snapshots, and available to an Apache Kafka that takes the directory over.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

from bowstring.protocol.records.cluster_metadata import nodes
from bowstring.protocol.schema import MetadataRecord

# Only the last record of each key counts, so the key identifies what a record describes.
_KEYS: Final[dict[type[MetadataRecord], Callable[[Any], Hashable]]] = {
    nodes.RegisterControllerRecord: lambda record: record.controller_id,
}
_REMOVALS: Final[dict[type[MetadataRecord], tuple[type[MetadataRecord], Callable[[Any], Hashable]]]] = {
    nodes.UnregisterControllerRecord: (nodes.RegisterControllerRecord, lambda record: record.controller_id),
}

KEPT_RECORDS: Final[tuple[type[MetadataRecord], ...]] = (*_KEYS, *_REMOVALS)
"""Record types that `UnsupportedRecords.apply` accepts."""


class UnsupportedRecords:
    """Kept records by key. Removing an unknown key has no effect."""

    def __init__(self) -> None:
        self._records: dict[type[MetadataRecord], dict[Hashable, MetadataRecord]] = {}

    def apply(self, record: MetadataRecord) -> None:
        """Stores a record in place of an older one with the same key, or drops what it removes."""
        kind = type(record)
        if kind in _REMOVALS:
            removed, key_of = _REMOVALS[kind]
            self._records.get(removed, {}).pop(key_of(record), None)
            return
        same_kind = self._records.setdefault(kind, {})
        same_kind[_KEYS[kind](record)] = record

    def copy(self) -> "UnsupportedRecords":
        """Returns the same records, which later ones do not change."""
        new = UnsupportedRecords()
        new._records = {kind: records.copy() for kind, records in self._records.items()}
        return new

    def of(self, kind: type[MetadataRecord]) -> Iterator[MetadataRecord]:
        """Returns the kept records of a type."""
        return iter(self._records.get(kind, {}).values())

    def __len__(self) -> int:
        return sum(len(records) for records in self._records.values())
