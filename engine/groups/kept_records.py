"""Records of group types that this coordinator does not run yet: consumer, share and streams groups.

They stay in the log as they are, so that an Apache Kafka that takes the directory over finds its groups. Only
when a group of that name lives on as a classic one, or is deleted, are they deleted with it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bowstring.engine.groups.effects import Record

GROUP_METADATA: Final = 2
# Record types in the order in which Kafka takes a group apart: a group may only go when its members are gone,
# and a member when its assignments are.
_ORDER: Final = {
    kind: position
    for position, kinds in enumerate(
        (
            (8, 14, 22),  # current assignments of members
            (7, 13, 21),  # target assignments of members
            (6, 12, 20),  # target assignment epochs
            (5, 10, 19),  # members
            (4, 15, 16, 18, 23),  # partition metadata, regular expressions, topologies
            (3, 11, 17),  # groups
        )
    )
    for kind in kinds
}
KEPT_TYPES: Final = tuple(_ORDER)
"""Record types that are kept."""


def record_type(key: bytes) -> int:
    """What a key belongs to: its first two bytes."""
    return int.from_bytes(key[:2], "big")


def group_of(key: bytes) -> str:
    """The group in a key of the group log that is about one group: it comes first in all of them."""
    length = int.from_bytes(key[2:4], "big")
    return key[4 : 4 + length].decode(errors="replace")


class KeptRecords:
    """Keys in the log by group, each with a value there."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[bytes, None]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """A record of one of KEPT_TYPES is in the log."""
        group = group_of(key)
        if value is not None:
            self._keys.setdefault(group, {})[key] = None
        elif group in self._keys:
            self._keys[group].pop(key, None)
            if not self._keys[group]:
                del self._keys[group]

    def of_group(self, group: str) -> list[bytes]:
        """Keys that are in the log for a group."""
        return list(self._keys.get(group, ()))

    def with_tombstones(self, records: list[Record]) -> list[Record]:
        """`records`, and ahead of them the deletion of what is kept of the groups that they describe."""
        if not self._keys:
            return records
        return [*self._tombstones(records), *records]

    def _tombstones(self, records: Iterable[Record]) -> Iterator[Record]:
        for key, _ in records:
            if record_type(key) == GROUP_METADATA:
                doomed = self._keys.pop(group_of(key), {})
                for each in sorted(doomed, key=lambda each: _ORDER[record_type(each)]):
                    yield each, None
