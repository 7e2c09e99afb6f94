"""Keeps records that old streams groups had more, which this coordinator does not need.

The records stay in the log unchanged, so that an Apache Kafka that takes the directory over finds its groups.
They are deleted only when a group of another type and the same name replaces the group, or when the group is
deleted.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bowstring.engine.groups.effects import Record

# Classic, consumer and streams groups replace groups of the same name.
_REPLACING: Final = (2, 3, 17)
# Record types in the order in which Kafka deletes a group: a group after its members, and a member after its
# assignments.
_ORDER: Final = {
    kind: position
    for position, kinds in enumerate(
        (
            (18,),  # partition metadata
        )
    )
    for kind in kinds
}
KEPT_TYPES: Final = tuple(_ORDER)
"""Record types that are kept."""


def record_type(key: bytes) -> int:
    """Returns the record type of a key: its first two bytes."""
    return int.from_bytes(key[:2], "big")


def group_of(key: bytes) -> str:
    """Returns the group in a key of the group log. It is the first field in all keys about one group."""
    length = int.from_bytes(key[2:4], "big")
    return key[4 : 4 + length].decode(errors="replace")


class UnsupportedRecords:
    """Keys of records in the log, by group."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[bytes, None]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Applies a record of one of KEPT_TYPES."""
        group = group_of(key)
        if value is not None:
            self._keys.setdefault(group, {})[key] = None
        elif group in self._keys:
            self._keys[group].pop(key, None)
            if not self._keys[group]:
                del self._keys[group]

    def of_group(self, group: str) -> list[bytes]:
        """Returns the keys in the log for a group."""
        return list(self._keys.get(group, ()))

    def with_tombstones(self, records: list[Record]) -> list[Record]:
        """Returns `records` preceded by tombstones for the kept records of the same groups."""
        if not self._keys:
            return records
        return [*self._tombstones(records), *records]

    def _tombstones(self, records: Iterable[Record]) -> Iterator[Record]:
        for key, _ in records:
            if record_type(key) in _REPLACING:
                doomed = self._keys.pop(group_of(key), {})
                for each in sorted(doomed, key=lambda each: _ORDER[record_type(each)]):
                    yield each, None
