"""Compares schemas of strings, numbers, constants and negations."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

from bowstring.schemas.json_schema.changes import Changes
from bowstring.schemas.json_schema.nodes import Node, Number

if TYPE_CHECKING:
    from bowstring.schemas.json_schema.comparison import Comparison, Steps

# Of digits beside the point: with more, a remainder could take forever.
_LARGEST_EXPONENT = 1000


def compare_limits(
    changes: Changes, limits: tuple[tuple[str, str, Number | None, Number | None], ...]
) -> None:
    """Compares limits: keyword, Confluent's name of it, limit of the original and of the update.

    Numbers are compared as doubles, as in Confluent's registry.
    """
    for keyword, name, original, update in limits:
        if original is None and update is None:
            continue
        if original is None or update is None:
            changes.add(f"{name}_{'ADDED' if original is None else 'REMOVED'}", keyword)
        elif (old := _double(original)) != (new := _double(update)):
            changes.add(f"{name}_{'INCREASED' if old < new else 'DECREASED'}", keyword)


def compare_strings(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares what two schemas say of strings."""
    old, new = original.rules, update.rules
    compare_limits(
        changes,
        (
            ("maxLength", "MAX_LENGTH", old.max_length, new.max_length),
            ("minLength", "MIN_LENGTH", old.min_length, new.min_length),
        ),
    )
    if old.pattern != new.pattern:
        what = "ADDED" if old.pattern is None else "REMOVED" if new.pattern is None else "CHANGED"
        changes.add(f"PATTERN_{what}", "pattern")
    yield from ()


def compare_numbers(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares what two schemas say of numbers."""
    old, new = original.rules, update.rules
    compare_limits(
        changes,
        (
            ("maximum", "MAXIMUM", old.maximum, new.maximum),
            ("minimum", "MINIMUM", old.minimum, new.minimum),
            ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", old.exclusive_maximum, new.exclusive_maximum),
            ("exclusiveMinimum", "EXCLUSIVE_MINIMUM", old.exclusive_minimum, new.exclusive_minimum),
        ),
    )
    factors = _change_of_factor(old.multiple_of, new.multiple_of)
    if factors is not None:
        changes.add(f"MULTIPLE_OF_{factors}", "multipleOf")
    if old.is_integer is not new.is_integer:
        changes.add("TYPE_EXTENDED" if old.is_integer else "TYPE_NARROWED")
    yield from ()


def compare_constants(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares two constants."""
    if original.rules != update.rules:
        changes.add("ENUM_ARRAY_CHANGED", "const")
    yield from ()


def compare_enums(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares two lists of values."""
    old, new = original.rules.keys(), update.rules.keys()
    comparison.spend(len(old) // 8)
    if old != new:
        what = "EXTENDED" if old <= new else "NARROWED" if new <= old else "CHANGED"
        changes.add(f"ENUM_ARRAY_{what}", "enum")
    yield from ()


def compare_negations(comparison: Comparison, changes: Changes, original: Node, update: Node) -> Steps:
    """Compares two negations: what the new one refuses must have been refused before."""
    inner = yield update.rules, original.rules
    changes.add("NOT_TYPE_NARROWED" if inner.is_compatible else "NOT_TYPE_EXTENDED", "not")


def _change_of_factor(old: Number | None, new: Number | None) -> str | None:
    if old is None or new is None:
        return None if old is new else "ADDED" if old is None else "REMOVED"
    if old == new:
        return None
    if _is_multiple(new, old):
        return "EXPANDED"
    return "REDUCED" if _is_multiple(old, new) else "CHANGED"


def _is_multiple(number: Number, factor: Number) -> bool:
    """Whether `number` is a multiple of `factor`; False if that is too much to compute."""
    scaled = []
    for each in (Decimal(number), Decimal(factor)):
        _, digits, exponent = each.as_tuple()
        if not isinstance(exponent, int) or max(abs(exponent), len(digits)) > _LARGEST_EXPONENT:
            return False
        scaled.append((int("".join(map(str, digits))), exponent))
    least = min(exponent for _, exponent in scaled)
    dividend, divisor = (value * int(10 ** (exponent - least)) for value, exponent in scaled)
    return divisor != 0 and dividend % divisor == 0


def _double(number: Number) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
