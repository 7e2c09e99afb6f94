"""Compares schemas of objects.

What else than its properties an object may have is its content model: open (anything), partially open
(what fits a schema) or closed (nothing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.schemas.json_schema.changes import Changes
from bowstring.schemas.json_schema.compared_values import compare_limits
from bowstring.schemas.json_schema.nodes import ArrayRules, Node, NodeKind, ObjectRules

if TYPE_CHECKING:
    from bowstring.schemas.json_schema.comparison import Comparison, Steps

ANYTHING = (NodeKind.EMPTY, NodeKind.TRUE)


class _Rest:
    """What an object may have besides the properties that its schema lists.

    Attributes:
        is_open: Whether that is anything.
    """

    def __init__(self, comparison: Comparison, rules: ObjectRules, is_asked: bool) -> None:
        patterns = rules.patterns if is_asked else {}
        self._matchers = [(comparison.matcher(pattern), schema) for pattern, schema in patterns.items()]
        self._schema = schema_of_rest(rules)
        self.is_open = not rules.patterns and is_unlimited(rules)

    def schema_of(self, name: str) -> Node | None:
        """Returns what the property may be; None if there is no rule for it."""
        return next((schema for matches, schema in self._matchers if matches(name)), self._schema)


def compare_objects(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares what two schemas say of objects."""
    old, new = original.rules, update.rules
    comparison.spend(len(old.properties) + len(new.properties))
    _compare_required(changes, old, new)
    yield from _compare_properties(comparison, changes, old, new)
    yield from _compare_dependencies(comparison, changes, old, new)
    yield from compare_rest(changes, old, new, "additionalProperties", "ADDITIONAL_PROPERTIES")
    yield from compare_unevaluated(changes, old, new, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
    compare_limits(
        changes,
        (
            ("maxProperties", "MAX_PROPERTIES", old.max_properties, new.max_properties),
            ("minProperties", "MIN_PROPERTIES", old.min_properties, new.min_properties),
        ),
    )


def _compare_required(changes: Changes, old: ObjectRules, new: ObjectRules) -> None:
    for name in old.properties:
        schema = new.properties.get(name)
        if schema is None or (name in old.required) is (name in new.required):
            continue
        if name in old.required:
            changes.add("REQUIRED_ATTRIBUTE_REMOVED", f"required/{name}")
        elif schema.default is not None:
            changes.add("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", f"required/{name}")
        else:
            changes.add("REQUIRED_ATTRIBUTE_ADDED", f"required/{name}")


def _compare_properties(
    comparison: Comparison, changes: Changes, old: ObjectRules, new: ObjectRules
) -> Steps:
    others = len(old.properties.keys() ^ new.properties.keys())
    comparison.spend(others * (len(old.patterns) + len(new.patterns)))
    old_rest, new_rest = (_Rest(comparison, rules, others > 0) for rules in (old, new))
    for name in {**old.properties, **new.properties}:
        path = f"properties/{name}"
        before, after = old.properties.get(name), new.properties.get(name)
        if after is None:
            assert before is not None
            yield from _compare_removed(changes, before, new_rest, name)
        elif before is None:
            yield from _compare_added(changes, after, old_rest, new, name)
        else:
            inner = yield before, after
            changes.include(inner, path)


def _compare_removed(changes: Changes, schema: Node, rest: _Rest, name: str) -> Steps:
    """Compares a property that only the original has with what the update says of any other."""
    path = f"properties/{name}"
    other = rest.schema_of(name)
    if rest.is_open:
        changes.add("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
    elif other is not None:
        yield from compare_covered(changes, schema, other, "PROPERTY_REMOVED", path)
    elif schema.kind is NodeKind.FALSE:
        changes.add("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    else:
        changes.add("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _compare_added(changes: Changes, schema: Node, rest: _Rest, new: ObjectRules, name: str) -> Steps:
    """Compares a property that only the update has with what the original says of any other."""
    path = f"properties/{name}"
    if rest.is_open and schema.kind in ANYTHING:
        changes.add("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", path)
        return
    other = rest.schema_of(name)
    if other is not None:
        yield from compare_covered(changes, other, schema, "PROPERTY_ADDED", path)
    model = "OPEN" if rest.is_open else "UNOPEN"
    if name not in new.required:
        changes.add(f"OPTIONAL_PROPERTY_ADDED_TO_{model}_CONTENT_MODEL", path)
    elif schema.default is not None:
        changes.add(f"REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_{model}_CONTENT_MODEL", path)
    else:
        changes.add(f"REQUIRED_PROPERTY_ADDED_TO_{model}_CONTENT_MODEL", path)


def compare_covered(changes: Changes, old: Node, new: Node, name: str, path: str) -> Steps:
    """Compares a property or item that only one schema has with what the other says of any other."""
    inner = yield old, new
    changes.include(inner, path)
    what = "IS" if inner.is_compatible else "NOT"
    changes.add(f"{name}_{what}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)


def _compare_dependencies(
    comparison: Comparison, changes: Changes, old: ObjectRules, new: ObjectRules
) -> Steps:
    comparison.spend(len(old.needed_properties) + len(new.needed_properties))
    for name in {**old.needed_properties, **new.needed_properties}:
        before, after = old.needed_properties.get(name), new.needed_properties.get(name)
        path = f"dependencies/{name}"
        if before is None or after is None:
            changes.add(f"DEPENDENCY_ARRAY_{'ADDED' if before is None else 'REMOVED'}", path)
        elif before != after:
            what = "EXTENDED" if before < after else "NARROWED" if after < before else "CHANGED"
            changes.add(f"DEPENDENCY_ARRAY_{what}", path)
    for name in {**old.needed_schemas, **new.needed_schemas}:
        first, second = old.needed_schemas.get(name), new.needed_schemas.get(name)
        path = f"dependencies/{name}"
        if first is None or second is None:
            changes.add(f"DEPENDENCY_SCHEMA_{'ADDED' if first is None else 'REMOVED'}", path)
        else:
            inner = yield first, second
            changes.include(inner, path)


def compare_rest(
    changes: Changes, old: ObjectRules | ArrayRules, new: ObjectRules | ArrayRules, keyword: str, name: str
) -> Steps:
    """Compares what else may be in an object or array."""
    if old.has_additional is not new.has_additional:
        changes.add(f"{name}_{'ADDED' if new.has_additional else 'REMOVED'}", keyword)
    elif (old.additional is None) is not (new.additional is None):
        changes.add(f"{name}_{'NARROWED' if old.additional is None else 'EXTENDED'}", keyword)
    else:
        inner = yield old.additional, new.additional
        changes.include(inner, keyword)


def compare_unevaluated(
    changes: Changes, old: ObjectRules | ArrayRules, new: ObjectRules | ArrayRules, keyword: str, name: str
) -> Steps:
    """Compares what may be in an object or array that no other keyword is about."""
    before, after = old.unevaluated, new.unevaluated
    if before is None and after is None:
        return
    was_closed, is_closed = (each is not None and each.kind is NodeKind.FALSE for each in (before, after))
    if was_closed is not is_closed:
        changes.add(f"{name}_{'ADDED' if was_closed else 'REMOVED'}", keyword)
    elif before is None or after is None:
        changes.add(f"{name}_{'NARROWED' if before is None else 'EXTENDED'}", keyword)
    elif (before.kind in ANYTHING) is not (after.kind in ANYTHING):
        changes.add(f"{name}_{'NARROWED' if before.kind in ANYTHING else 'EXTENDED'}", keyword)
    else:
        inner = yield before, after
        changes.include(inner, keyword)


def is_unlimited(rules: ObjectRules | ArrayRules) -> bool:
    """Whether anything else may be in an object or array."""
    return (
        rules.has_additional
        and rules.additional is None
        and (rules.unevaluated is None or rules.unevaluated.kind in ANYTHING)
    )


def schema_of_rest(rules: ObjectRules | ArrayRules) -> Node | None:
    """Returns what else may be in an object or array; None if that is anything or nothing."""
    if rules.additional is not None:
        return rules.additional
    rest = rules.unevaluated
    if rules.has_additional and rest is not None and rest.kind not in (*ANYTHING, NodeKind.FALSE):
        return rest
    return None
