"""Compares schemas of arrays."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from bowstring.schemas.json_schema.changes import Changes
from bowstring.schemas.json_schema.compared_objects import (
    ANYTHING,
    compare_covered,
    compare_rest,
    compare_unevaluated,
    is_unlimited,
    schema_of_rest,
)
from bowstring.schemas.json_schema.compared_values import compare_limits
from bowstring.schemas.json_schema.nodes import ArrayRules, Node, NodeKind

if TYPE_CHECKING:
    from bowstring.schemas.json_schema.comparison import Comparison, Steps


def compare_arrays(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares what two schemas say of arrays."""
    old, new = original.rules, update.rules
    comparison.spend(len(old.prefix) + len(new.prefix))
    inner = yield old.items, new.items
    changes.include(inner, "items")
    yield from _compare_prefixes(changes, old, new)
    yield from compare_rest(changes, old, new, "additionalItems", "ADDITIONAL_ITEMS")
    yield from compare_unevaluated(changes, old, new, "unevaluatedItems", "UNEVALUATED_ITEMS")
    compare_limits(
        changes,
        (
            ("maxItems", "MAX_ITEMS", old.max_items, new.max_items),
            ("minItems", "MIN_ITEMS", old.min_items, new.min_items),
            ("maxContains", "MAX_CONTAINS", old.max_contains, new.max_contains),
            ("minContains", "MIN_CONTAINS", old.min_contains, new.min_contains),
        ),
    )
    if old.is_unique is not new.is_unique:
        changes.add(f"UNIQUE_ITEMS_{'REMOVED' if old.is_unique else 'ADDED'}", "uniqueItems")


def _compare_prefixes(changes: Changes, old: ArrayRules, new: ArrayRules) -> Steps:
    """Compares items that have a schema by their position."""
    for index, (before, after) in enumerate(zip_longest(old.prefix, new.prefix)):
        path = f"items/{index}"
        if after is None:
            yield from _compare_removed(changes, before, new, path)
        elif before is None:
            yield from _compare_added(changes, after, old, path)
        else:
            inner = yield before, after
            changes.include(inner, path)


def _compare_removed(changes: Changes, schema: Node, new: ArrayRules, path: str) -> Steps:
    other = schema_of_rest(new)
    if is_unlimited(new):
        changes.add("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
    elif other is not None:
        yield from compare_covered(changes, schema, other, "ITEM_REMOVED", path)
    elif schema.kind is NodeKind.FALSE:
        changes.add("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    else:
        changes.add("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _compare_added(changes: Changes, schema: Node, old: ArrayRules, path: str) -> Steps:
    other = schema_of_rest(old)
    if is_unlimited(old):
        what = "_WITH_EMPTY_SCHEMA" if schema.kind in ANYTHING else ""
        changes.add(f"ITEM{what}_ADDED_TO_OPEN_CONTENT_MODEL", path)
    elif other is not None:
        yield from compare_covered(changes, other, schema, "ITEM_ADDED", path)
    else:
        changes.add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)
