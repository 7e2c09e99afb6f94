"""Compares schemas that combine others by allOf, anyOf or oneOf."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from bowstring.schemas.json_schema.changes import Changes
from bowstring.schemas.json_schema.json_text import shape_of
from bowstring.schemas.json_schema.nodes import CombinedRules, Node

if TYPE_CHECKING:
    from bowstring.schemas.json_schema.comparison import Comparison, Steps

_Shape = tuple[int, str]


def compare_combinations(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares two combinations: each schema of the shorter one needs a partner of its own."""
    kind = _change_of_criterion(original.rules, update.rules)
    if kind is not None:
        changes.add(kind)
    if kind == "COMBINED_TYPE_CHANGED":
        return
    old, new = (_distinct(comparison, each.rules.schemas) for each in (original, update))
    if len(old) < len(new):
        is_product = update.rules.criterion == "allOf"
        changes.add("PRODUCT_TYPE_EXTENDED" if is_product else "SUM_TYPE_EXTENDED")
    elif len(old) > len(new):
        is_product = original.rules.criterion == "allOf"
        changes.add("PRODUCT_TYPE_NARROWED" if is_product else "SUM_TYPE_NARROWED")
    pairs = yield from _match(comparison, old, new)
    if pairs is None:
        changes.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")
        return
    for position, inner in sorted(pairs.items()):
        changes.include(inner, f"{original.rules.criterion}/{position}")


def _change_of_criterion(old: CombinedRules, new: CombinedRules) -> str | None:
    if old.criterion == new.criterion:
        return None
    was_single, is_single = len(old.schemas) == 1, len(new.schemas) == 1
    is_wider = (
        new.criterion == "anyOf"
        or (was_single and is_single)
        or (was_single and new.criterion == "oneOf")
        or (is_single and old.criterion == "allOf")
    )
    return "COMBINED_TYPE_EXTENDED" if is_wider else "COMBINED_TYPE_CHANGED"


def _distinct(comparison: Comparison, schemas: list[Node]) -> dict[_Shape, Node]:
    """Returns schemas by what they say; one that is there twice counts once."""
    comparison.spend(len(schemas))
    distinct: dict[_Shape, Node] = {}
    for node in schemas:
        shape = shape_of(node.origin, comparison.shapes, comparison.known_shapes), _part(node)
        distinct.setdefault(shape, node)
    return distinct


def _part(node: Node) -> str:
    """Returns which part of its JSON a schema is from."""
    if isinstance(node.rules, CombinedRules):
        return f"{node.rules.criterion} {node.rules.is_generated}"
    return node.part


def _match(
    comparison: Comparison, old: dict[_Shape, Node], new: dict[_Shape, Node]
) -> Generator[tuple[Node | None, Node | None], Changes, dict[int, Changes] | None]:
    """Returns the changes of each pair by the position in `old`; None if some schema of the fewer finds none.

    Finds a perfect matching of the fewer by augmenting paths (Kuhn's algorithm), and compares only pairs that
    the search comes to: a schema is first tried with one that says the same.
    """
    is_swapped = len(old) > len(new)
    few, many = (new, old) if is_swapped else (old, new)
    targets = list(many.values())
    positions = {shape: index for index, shape in enumerate(many)}
    taken: dict[int, int] = {}  # of `many`, which one of `few` has it
    edges: dict[tuple[int, int], Changes] = {}
    sources = list(few.items())
    for first in range(len(sources)):
        came_from: dict[int, int] = {}  # of `many`, which one of `few` tried it
        pending = [first]
        end: int | None = None
        while pending and end is None:
            source = pending.pop()
            shape, node = sources[source]
            for target in _candidates(positions.get(shape), source, len(targets)):
                if target in came_from:
                    continue
                comparison.spend(1)
                edge = (source, target)
                if edge not in edges:
                    other = targets[target]
                    edges[edge] = yield (other, node) if is_swapped else (node, other)
                if not edges[edge].is_compatible:
                    continue
                came_from[target] = source
                if target not in taken:
                    end = target
                    break
                pending.append(taken[target])
        if end is None:
            return None
        _augment(end, first, came_from, taken)
    return {(target if is_swapped else source): edges[source, target] for target, source in taken.items()}


def _augment(end: int, first: int, came_from: dict[int, int], taken: dict[int, int]) -> None:
    """Gives every schema on the path that ends at `end` its new partner."""
    while True:
        source = came_from[end]
        before = next((target for target, owner in taken.items() if owner == source), None)
        taken[end] = source
        if source == first or before is None:
            return
        end = before


def _candidates(same: int | None, position: int, count: int) -> Iterator[int]:
    """Yields positions to try: of the schema that says the same, at the same place, and all others."""
    if same is not None:
        yield same
    if position < count:
        yield position
    yield from range(count)
