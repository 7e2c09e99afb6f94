"""Reads JSON within limits and writes it byte for byte as Jackson does, which Confluent's registry uses."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from bowstring.schemas.errors import InvalidSchemaError

LARGEST_TEXT = 5 << 20  # characters
MOST_DECIMALS = 100_000
DEEPEST_NESTING = 500
LONGEST_NUMBER = 1000  # characters, as Jackson's

_LARGEST_EXPONENT = (1 << 31) - 1
_ESCAPE = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")


def read_json(text: str) -> Any:
    """Returns the value of `text`: integers as int, other numbers as Decimal with the digits as written.

    A name that occurs twice in an object has its last value, at its first place.

    Raises:
        InvalidSchemaError: It is no JSON, or exceeds a limit.
    """
    if len(text) > LARGEST_TEXT:
        raise InvalidSchemaError(f"the schema is longer than {LARGEST_TEXT:,} characters")
    try:
        # NaN and the infinities become strings, as Jackson writes them.
        value = json.loads(text, parse_float=_Decimals().read, parse_constant=str)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise InvalidSchemaError(
            f"line {error.lineno}, column {error.colno}: no valid JSON: {error.msg}"
        ) from None
    except InvalidSchemaError:
        raise
    except ValueError:
        raise InvalidSchemaError(f"a number is longer than {LONGEST_NUMBER:,} characters") from None
    if text.count("{") + text.count("[") > DEEPEST_NESTING:
        _check_depth(value)
    return value


def write_json(value: Any, is_sorted: bool = False) -> str:
    """Returns `value` without spaces.

    Args:
        is_sorted: Members of objects are in the order of their names' UTF-16 code units, as in Java.

    Raises:
        InvalidSchemaError: A string has half of a surrogate pair, which has no bytes in UTF-8.
    """
    try:
        text = _dump(value, is_sorted)
    except TypeError:
        text = _dump_decimals(value, is_sorted)
    if "\\u00" in text:
        text = _ESCAPE.sub(lambda found: found[0] if found[1] is None else "\\u00" + found[1].upper(), text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidSchemaError("a string has half of a surrogate pair") from None
        if is_sorted and max(text) > "\uffff" and _sort_as_java(value):
            return write_json(value)
    return text


def shape_of(value: Any, shapes: dict[Any, int], known: dict[int, int]) -> int:
    """Returns a number that equal JSON values share; the order of members does not matter.

    Args:
        shapes: The numbers given so far; share it between values to be compared.
        known: The numbers by id() of containers, which must live as long.
    """
    pending = [value]
    while pending:
        top = pending[-1]
        if not isinstance(top, dict | list) or id(top) in known:
            pending.pop()
            continue
        children = top.values() if isinstance(top, dict) else top
        missing = [child for child in children if isinstance(child, dict | list) and id(child) not in known]
        if missing:
            pending.extend(missing)
            continue
        pending.pop()
        numbers = [_shape(child, shapes, known) for child in children]
        key = ("{", *sorted(zip(top, numbers, strict=True))) if isinstance(top, dict) else ("[", *numbers)
        known[id(top)] = shapes.setdefault(key, len(shapes))
    return _shape(value, shapes, known)


def _shape(value: Any, shapes: dict[Any, int], known: dict[int, int]) -> int:
    if isinstance(value, dict | list):
        return known[id(value)]
    return shapes.setdefault((type(value), str(value)), len(shapes))


class _Decimals:
    """Reads the decimal numbers of one text."""

    def __init__(self) -> None:
        self._left = MOST_DECIMALS

    def read(self, text: str) -> Decimal:
        self._left -= 1
        if self._left < 0:
            raise InvalidSchemaError(f"the schema has more than {MOST_DECIMALS:,} decimal numbers")
        if len(text) > LONGEST_NUMBER:
            raise InvalidSchemaError(f"a number is longer than {LONGEST_NUMBER:,} characters")
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("Infinity")
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int) or abs(exponent) > _LARGEST_EXPONENT:
            raise InvalidSchemaError(f"the exponent of {text[:40]} is too large")
        return number if number else number.copy_abs()


def _dump(value: Any, is_sorted: bool, default: Any = None) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=is_sorted, default=default)


def _dump_decimals(value: Any, is_sorted: bool) -> str:
    """Dumps Decimals as strings between marks that are nowhere else, and takes marks and quotes off."""
    without = _dump(value, is_sorted, default=lambda number: "")
    mark = "@"
    while mark in without:
        mark += "@"
    text = _dump(value, is_sorted, default=lambda number: f"{mark}{number}{mark}")
    return re.sub(f'"{mark}([^"@]*){mark}"', r"\1", text)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST_NESTING):
        level = [
            child
            for container in level
            if isinstance(container, dict | list)
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> InvalidSchemaError:
    return InvalidSchemaError(f"the schema is nested more than {DEEPEST_NESTING} deep")


def _sort_as_java(value: Any) -> bool:
    """Sorts the members of all objects in place by UTF-16 code units; whether there was an object."""
    pending = [value]
    has_objects = False
    while pending:
        top = pending.pop()
        if isinstance(top, dict):
            has_objects = True
            members = sorted(top.items(), key=lambda member: member[0].encode("utf-16-be"))
            top.clear()
            top.update(members)
            pending.extend(top.values())
        elif isinstance(top, list):
            pending.extend(top)
    return has_objects
