"""Bounds how often parts of a JSON Schema are evaluated for a part of a value, and how deep they recurse."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

PARTS_MAX = 200_000
"""Of a schema, with those that it refers to."""
STEPS_MAX = 1_000_000
"""Parts that are looked at for all levels of values: some seconds."""
COUNT_MAX = 1 << 62
LEVELS = 8
"""That are counted at once."""
_TOO_MANY_STEPS = "it contains itself, and has many parts"
_PATTERN_COST = 20
_UNEVALUATED_REPEATS = 3
"""How often parts are evaluated in place that tell what is unevaluated: 2.5 times was measured."""
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ONE = ("not", "if", "then", "else")
_ONE_OF_CHILDREN = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "additionalItems"),
    *("unevaluatedItems", "contains", "items"),
)


class SchemaCost:
    """Counts by levels of a value, because a schema that contains itself in two ways is evaluated twice as
    often on each next level. Any thread may call.

    Args:
        schema: the schema.
        resolver: of jsonschema_rs; finds what it refers to.

    Attributes:
        is_bounded: whether the schema contains itself nowhere.

    Raises:
        ValueError: it has too many parts.
    """

    def __init__(self, schema: Any, resolver: Any):
        parts = _Parts()
        self._root, self._parts = parts.of(schema, resolver), parts.made
        self._lock = threading.Lock()
        self._steps, self._cuts = 0, set[int]()
        self._most: list[tuple[int, int]] = []  # by level
        self._depth_max: float = math.inf
        self.is_bounded = False
        self._cut: _Part | None = None
        self._cut_count = 0
        self._count(LEVELS)
        self._kept = COUNT_MAX if self.is_bounded else self._count_kept(parts)

    def of(self, depth: int) -> tuple[int, int, int]:
        """Returns how many evaluations a part of a value takes at most, how many are within one another, and
        how many it takes where reasons are collected.

        Args:
            depth: of the value, ignored if `is_bounded`.

        Raises:
            ValueError: counting takes too long.
        """
        with self._lock:
            if depth >= len(self._most) and not self.is_bounded:
                if depth >= self._depth_max:
                    raise ValueError(_TOO_MANY_STEPS)
                try:
                    self._count(1 << depth.bit_length())
                except BaseException:
                    self._depth_max = depth
                    raise
            count, height = self._most[-1 if self.is_bounded else depth]
        return min(count, self._kept), height, count

    def _count_kept(self, parts: _Parts) -> int:
        """Returns the evaluations of a part of a value where only one part of the schema contains itself:
        the validator keeps the results of that part for arrays and objects.
        """
        try:
            part = parts.recursive_one(self._root)
            if part is None or self._cuts:
                return COUNT_MAX
            self._steps = total = 0
            self._cut_count = self._level(part, 0)[0]
            self._forget()
            self._cut = part
            for each in (self._root, part.copy()):
                level = 0
                while count := self._level(each, level)[0]:
                    total, level = total + count, level + 1
            return total
        except (ValueError, RecursionError):  # too many steps
            return COUNT_MAX
        finally:
            self._cut = None
            self._forget()

    def _forget(self) -> None:
        """Forgets what is known of the parts, because it takes memory."""
        for part in self._parts:
            part.levels.clear()
            part.is_counted = False

    def _count(self, levels: int) -> None:
        most: list[tuple[int, int]] = []
        count_max = height_max = self._steps = 0
        try:
            while len(most) < levels and not self.is_bounded:
                count, height = self._level(self._root, len(most))
                self.is_bounded = not count
                if len(self._cuts) > 1:
                    raise ValueError(
                        "its parts contain themselves, in several ways, without a part of the value"
                    )
                if self._cuts:  # each way to the part, and each way on from it
                    count *= count + 1
                count_max, height_max = max(count_max, count), max(height_max, height)
                most.append((count_max, height_max))
        finally:
            self._forget()
        self._most = most

    def _level(self, part: _Part, level: int) -> tuple[int, int]:
        """Returns the evaluations, and their depth, that a part makes so many levels below a value."""
        if part is self._cut:
            return (0, 0) if level else (self._cut_count, 1)
        known = part.levels.get(level)
        if known is not None:
            return known
        if part.is_counted:  # it contains itself in place: the validator leaves that out
            self._cuts.add(id(part))
            return 1, 1
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise ValueError(_TOO_MANY_STEPS)
        part.is_counted = True
        count, height = (0, 0) if level else (part.cost, 0)
        for each in part.in_place:
            more, inner = self._level(each, level)
            count, height = count + more * part.repeats, max(height, inner)
        if level:
            named = 0
            for each in part.properties:
                more, inner = self._level(each, level - 1)
                named, height = max(named, more), max(height, inner)
            count += named
            for each in part.children:
                more, inner = self._level(each, level - 1)
                count, height = count + more, max(height, inner)
        part.is_counted = False
        found = min(count, COUNT_MAX), height + 1 if count else 0
        part.levels[level] = found
        return found


class _Part:
    """A part of a schema.

    Attributes:
        cost: of the part itself.
        in_place: parts that are evaluated for the same part of a value.
        repeats: how often each of them is.
        properties: parts of which one is evaluated for a part within it.
        children: parts that all may be evaluated for a part within it.
        levels: what is counted.
        is_counted: while it is.
    """

    __slots__ = ("children", "cost", "in_place", "is_counted", "levels", "properties", "repeats")

    def __init__(self, cost: int):
        self.cost, self.repeats = cost, 1
        self.in_place: list[_Part] = []
        self.properties: list[_Part] = []
        self.children: list[_Part] = []
        self.levels: dict[int, tuple[int, int]] = {}
        self.is_counted = False

    def copy(self) -> _Part:
        made = _Part(self.cost)
        made.in_place, made.properties, made.children = self.in_place, self.properties, self.children
        return made

    def inner(self) -> list[_Part]:
        return [*self.in_place, *self.properties, *self.children]


class _Parts:
    """Makes parts; what is referred to is one part, however often.

    Attributes:
        made: all parts.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Part] = {}
        self._count = 0
        self._is_plain = True  # the validator keeps results of what is referred to
        self._plain = _Part(1)
        self.made = [self._plain]

    def of(self, schema: Any, resolver: Any) -> _Part:
        return self._filled(self._part(), schema, resolver) if isinstance(schema, dict) else self._plain

    def _part(self, cost: int = 1) -> _Part:
        self.made.append(_Part(cost))
        return self.made[-1]

    def _filled(self, part: _Part, schema: Any, resolver: Any) -> _Part:
        if not isinstance(schema, dict):
            return part
        self._count += 1
        if self._count > PARTS_MAX:
            raise ValueError(f"it has more than {PARTS_MAX} parts")
        own = schema.get("$id")
        if isinstance(own, str) and not own.startswith("#") and urljoin(resolver.base_uri, own) != own:
            resolver = _inside(own, resolver)
        for name in ("enum", "required"):
            part.cost += len(_list(schema.get(name)))
        part.cost += _PATTERN_COST * ("pattern" in schema)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            part.repeats, self._is_plain = _UNEVALUATED_REPEATS, False
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(name), str):
                part.in_place.append(self._referred(schema[name], resolver))
                self._is_plain &= name == "$ref"
        within = [each for name in _IN_PLACE for each in _list(schema.get(name))]
        within += [schema[name] for name in _IN_PLACE_ONE if name in schema]
        within += [
            each for name in ("dependentSchemas", "dependencies") for each in _values(schema.get(name))
        ]
        part.in_place += [self.of(each, resolver) for each in within]
        self._add_children(part, schema, resolver)
        return part

    def _add_children(self, part: _Part, schema: Mapping[str, Any], resolver: Any) -> None:
        places = [*_values(schema.get("properties")), *_list(schema.get("prefixItems"))]
        part.properties += [self.of(each, resolver) for each in (*places, *_list(schema.get("items")))]
        patterns = _values(schema.get("patternProperties"))
        every = patterns + [schema[name] for name in _ONE_OF_CHILDREN if name in schema]
        part.children += [self.of(each, resolver) for each in every]
        if patterns:
            part.children.append(self._part(_PATTERN_COST * len(patterns)))

    def recursive_one(self, root: _Part) -> _Part | None:
        """Returns the part that all ways from parts to themselves pass, if no other part is referred to on
        these ways.
        """
        heads: set[_Part] = set()
        is_open: dict[_Part, bool] = {}

        def walk(part: _Part) -> None:
            is_open[part] = True
            for each in part.inner():
                if each not in is_open:
                    walk(each)
                elif is_open[each]:
                    heads.add(each)
            is_open[part] = False

        def leads_back(part: _Part) -> bool:
            if part not in leading:
                leading[part] = False
                leading[part] = any([each is head or leads_back(each) for each in part.inner()])
            return leading[part]

        walk(root)
        if len(heads) != 1 or not self._is_plain:
            return None
        head, leading = heads.pop(), dict[_Part, bool]()
        leads_back(head)
        return None if any(leading.get(each) and each is not head for each in self._known.values()) else head

    def _referred(self, reference: str, resolver: Any) -> _Part:
        key = (resolver.base_uri, reference)
        if key not in self._known:
            part = self._known[key] = self._part()
            try:
                found = resolver.lookup(reference)
            except Exception:  # of a dynamic reference: the validator has found out
                return part
            self._filled(part, found.contents, found.resolver)
        return self._known[key]


def _inside(own: str, resolver: Any) -> Any:
    try:
        return resolver.lookup(own).resolver
    except Exception:  # an id in an unknown keyword: no schema
        return resolver


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _values(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else []
