"""Compares two schemas by the rules of Confluent's registry, in bounded time and without recursion.

The comparison of a pair of schemas is a generator that asks for the comparison of pairs inside it; a list of
such generators takes the place of the stack. Each pair is compared once.

A pair that is met inside itself is compatible unless it is known not to be: what is found to be incompatible
is remembered, and all is compared again until no more of these come up. The result is the most compatible
one that contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema.changes import Changes
from bowstring.schemas.json_schema.compared_arrays import compare_arrays
from bowstring.schemas.json_schema.compared_combinations import compare_combinations
from bowstring.schemas.json_schema.compared_objects import compare_objects
from bowstring.schemas.json_schema.compared_values import (
    compare_constants,
    compare_enums,
    compare_negations,
    compare_numbers,
    compare_strings,
)
from bowstring.schemas.json_schema.nodes import Node, NodeKind, resolved
from bowstring.schemas.json_schema.patterns import matcher

# Pairs of schemas and of properties: about a second.
MOST_STEPS = 250_000

Steps = Generator[tuple[Node | None, Node | None], Changes, None]
Comparer = Callable[["Comparison", Changes, Node, Node], Steps]
_Key = tuple[int, int]


@dataclass(slots=True, eq=False)
class _Frame:
    """A comparison that has begun."""

    key: _Key
    changes: Changes
    steps: Steps


class Comparison:
    """Compares schemas; everything that two of them need of each other.

    Attributes:
        borne: The kinds of changes that readers bear.
    """

    def __init__(self, borne: frozenset[str]) -> None:
        self.borne = borne
        self.shapes: dict[object, int] = {}
        self.known_shapes: dict[int, int] = {}
        self._nothing = Changes(borne)
        self._done: dict[_Key, Changes] = {}
        self._underway: set[_Key] = set()
        self._incompatible: dict[_Key, Changes] = {}
        self._has_assumed = False
        self._steps = 0
        self._matchers: dict[str, Callable[[str], bool]] = {}

    def compare(self, original: Node, update: Node) -> Changes:
        """Returns what readers of `update` find changed in data of `original`.

        Raises:
            InvalidSchemaError: The comparison takes too many steps.
        """
        changes: Changes | None = None
        while True:
            self._done = {}
            self._underway = set()
            self._has_assumed = False
            try:
                changes = self._run(original, update)
            except InvalidSchemaError:
                # What is incompatible in spite of all assumptions remains so.
                if changes is None or changes.is_compatible:
                    raise
                return changes
            incompatible = {key: each for key, each in self._done.items() if not each.is_compatible}
            if not self._has_assumed or incompatible.keys() == self._incompatible.keys():
                return changes
            self._incompatible = incompatible

    def matcher(self, pattern: str) -> Callable[[str], bool]:
        """Returns what says whether a name has a match of `pattern`; compiles each pattern once."""
        if pattern not in self._matchers:
            self._matchers[pattern] = matcher(pattern)
        return self._matchers[pattern]

    def spend(self, steps: int) -> None:
        """Counts steps.

        Raises:
            InvalidSchemaError: There are too many.
        """
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise InvalidSchemaError("the schemas take too long to compare: they combine too many schemas")

    def _run(self, original: Node, update: Node) -> Changes:
        frames: list[_Frame] = []
        answer = self._enter(original, update, frames)
        while frames:
            frame = frames[-1]
            try:
                # The first value sent to a generator must be None.
                pair = frame.steps.send(answer)  # type: ignore[arg-type]
            except StopIteration:
                frames.pop()
                self._underway.discard(frame.key)
                self._done[frame.key] = answer = frame.changes
            else:
                answer = self._enter(*pair, frames)
        assert answer is not None
        return answer

    def _enter(self, original: Node | None, update: Node | None, frames: list[_Frame]) -> Changes | None:
        """Returns the changes of a pair if they are known; else begins to compare it."""
        self.spend(1)
        if original is None or update is None:
            changes = Changes(self.borne)
            if original is not None or update is not None:
                changes.add("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED")
            return changes
        original = resolved(original)
        update = resolved(update)
        key = (id(original), id(update))
        if key in self._done:
            return self._done[key]
        if key in self._underway:
            if key not in self._incompatible:
                self._has_assumed = True
            return self._incompatible.get(key, self._nothing)
        self._underway.add(key)
        changes = Changes(self.borne)
        frames.append(_Frame(key, changes, _compare_schemas(self, changes, original, update)))
        return None


def _compare_schemas(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    is_settled = yield from _compare_with_alternatives(comparison, changes, original, update)
    if is_settled:
        return
    if original.kind is not update.kind:
        if original.kind is NodeKind.FALSE or update.kind in (NodeKind.EMPTY, NodeKind.TRUE):
            return
        # Connect's converters write decimals as bytes, once in one type and once in another.
        if original.connect_type == update.connect_type == "bytes":
            return
        changes.add("TYPE_CHANGED")
        return
    for attribute, kind in _ANNOTATIONS:
        if getattr(original, attribute) != getattr(update, attribute):
            changes.add(kind)
    comparer = _COMPARERS.get(original.kind)
    if comparer is not None:
        yield from comparer(comparison, changes, original, update)


def _compare_with_alternatives(
    comparison: Comparison, changes: Changes, original: Node, update: Node
) -> Generator[tuple[Node | None, Node | None], Changes, bool]:
    """Compares a schema with those that another one combines; whether that has settled it."""
    if (original.kind is NodeKind.COMBINED) == (update.kind is NodeKind.COMBINED):
        return False
    rules = (original if original.kind is NodeKind.COMBINED else update).rules
    is_update = update.kind is NodeKind.COMBINED
    is_choice = rules.criterion != "allOf"
    if len(rules.schemas) != 1 and is_choice is not is_update:
        return False
    for schema in rules.schemas:
        inner = yield (original, schema) if is_update else (schema, update)
        if inner.is_compatible:
            changes.include(inner)
            if len(rules.schemas) != 1:
                changes.add("SUM_TYPE_EXTENDED" if is_update else "PRODUCT_TYPE_NARROWED")
            return True
    return False


_ANNOTATIONS = (
    ("identifier", "ID_CHANGED"),
    ("title", "TITLE_CHANGED"),
    ("description", "DESCRIPTION_CHANGED"),
    ("default", "DEFAULT_CHANGED"),
)
_COMPARERS: dict[NodeKind, Comparer] = {
    NodeKind.ARRAY: compare_arrays,
    NodeKind.COMBINED: compare_combinations,
    NodeKind.CONST: compare_constants,
    NodeKind.ENUM: compare_enums,
    NodeKind.NOT: compare_negations,
    NodeKind.NUMBER: compare_numbers,
    NodeKind.OBJECT: compare_objects,
    NodeKind.STRING: compare_strings,
}
