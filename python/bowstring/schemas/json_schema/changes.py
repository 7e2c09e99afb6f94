"""The changes between one pair of schemas, with those of pairs inside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from bowstring.schemas.json_schema.change_kinds import CHANGE_KINDS

LONGEST_PATH = 1000  # characters


@dataclass(slots=True, eq=False)
class Changes:
    """What changed between two schemas.

    Changes of inner pairs are held by reference: the same pair may be inside many others, and the paths to it
    may be more than fit into memory.

    Attributes:
        borne: The kinds of changes that readers bear.
        is_compatible: Whether all are of these.
    """

    borne: frozenset[str]
    is_compatible: bool = True
    _entries: list[tuple[str, str | Changes]] = field(default_factory=list)

    def add(self, kind: str, path: str = "") -> None:
        """Adds a change at `path`, relative to this pair."""
        self._entries.append((path, kind))
        self.is_compatible = self.is_compatible and kind in self.borne

    def include(self, inner: Changes, path: str = "") -> None:
        """Adds the changes of a pair inside this one."""
        if inner._entries:
            self._entries.append((path, inner))
            self.is_compatible = self.is_compatible and inner.is_compatible

    def listed(self, most: int, all_of_them: bool = False) -> list[tuple[str, str]]:
        """Returns kinds and paths, in the order of their discovery.

        Args:
            most: How many at most.
            all_of_them: Also of changes that readers bear.
        """
        found: list[tuple[str, str]] = []
        pending: list[tuple[str, str | Changes]] = [("", self)]
        while pending and len(found) < most:
            path, entry = pending.pop()
            if isinstance(entry, str):
                found.append((entry, "#/" + path))
                continue
            pending.extend(
                (_path(path, inside), each)
                for inside, each in reversed(entry._entries)
                if all_of_them or not self._is_borne(each)
            )
        return found

    def _is_borne(self, entry: str | Changes) -> bool:
        return entry in self.borne if isinstance(entry, str) else entry.is_compatible


def described(kind: str) -> str:
    """Returns the sentence about a kind of change."""
    return CHANGE_KINDS[kind].description


def _path(outer: str, inner: str) -> str:
    if not (outer and inner):
        return outer or inner
    path = f"{outer}/{inner}"
    if len(path) <= LONGEST_PATH:
        return path
    half = LONGEST_PATH // 2
    return f"{path[:half]}…{path[1 - half :]}"
