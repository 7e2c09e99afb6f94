"""Turns trees of Avro's JSON encoding into values that fastavro writes, each in the branch of a union that it
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_TYPES = {"string": (str, "a string"), "boolean": (bool, "true or false"), "null": (type(None), "null")}
_BOUNDS = {"int": 31, "long": 63}
_NAMED = ("record", "error", "enum", "fixed")


def avro_value(schema: Any, named: Mapping[str, Any], data: Any) -> Any:
    """Returns a value; values of unions are pairs of the branch and the value.

    Args:
        schema: as fastavro.parse_schema returns it.
        named: its named types, by full name.
        data: the tree.

    Raises:
        ValueError: the tree does not fit.
    """
    if isinstance(schema, list):
        return _of_union(schema, named, data)
    if isinstance(schema, str) and schema in named:
        return avro_value(named[schema], named, data)
    kind = schema if isinstance(schema, str) else schema["type"]
    if not isinstance(kind, str):
        return avro_value(kind, named, data)
    make = _COMPLEX.get(kind)
    return _primitive(kind, data) if make is None else make(schema, named, data)


def _of_union(branches: list[Any], named: Mapping[str, Any], data: Any) -> Any:
    names = [_branch_name(each) for each in branches]
    if data is None and "null" in names:
        return None
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError(
            f"{_shown(data)} is no value of a union: name its branch, as {{{names[-1]!r}: …}}, one of {names}"
        )
    ((name, inner),) = data.items()
    if name not in names:
        raise ValueError(f"the union has no branch {name!r}; it has {names}")
    return name, avro_value(branches[names.index(name)], named, inner)


def _branch_name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema["name"] if schema["type"] in _NAMED else schema["type"])


def _record(schema: Mapping[str, Any], named: Mapping[str, Any], data: Any) -> dict[str, Any]:
    given, found = _checked(data, dict, "an object"), {}
    for field in schema["fields"]:
        name = field["name"]
        if name in given:
            found[name] = avro_value(field["type"], named, given[name])
        elif "default" not in field:
            raise ValueError(f"{schema['name']} has no {name}")
    return found


def _array(schema: Mapping[str, Any], named: Mapping[str, Any], data: Any) -> list[Any]:
    return [avro_value(schema["items"], named, each) for each in _checked(data, list, "a list")]


def _map(schema: Mapping[str, Any], named: Mapping[str, Any], data: Any) -> dict[str, Any]:
    members = _checked(data, dict, "an object")
    return {name: avro_value(schema["values"], named, each) for name, each in members.items()}


def _enum(schema: Mapping[str, Any], named: Mapping[str, Any], data: Any) -> Any:
    if data not in schema["symbols"]:
        raise ValueError(f"{schema['name']} has no symbol {_shown(data)}")
    return data


def _fixed(schema: Mapping[str, Any], named: Mapping[str, Any], data: Any) -> bytes:
    found = _bytes(data)
    if len(found) != schema["size"]:
        raise ValueError(f"{schema['name']} has {schema['size']} bytes, not {len(found)}")
    return found


_COMPLEX = {
    "record": _record,
    "error": _record,
    "array": _array,
    "map": _map,
    "enum": _enum,
    "fixed": _fixed,
}


def _primitive(kind: str, data: Any) -> Any:
    if kind in _TYPES:
        return _checked(data, *_TYPES[kind])
    if kind == "bytes":
        return _bytes(data)
    return _integer(kind, data) if kind in _BOUNDS else _number(kind, data)


def _integer(kind: str, data: Any) -> int:
    if isinstance(data, bool) or not isinstance(data, int) or not -1 <= data >> _BOUNDS[kind] <= 0:
        raise ValueError(f"{_shown(data)} is no {kind}")
    return data


def _number(kind: str, data: Any) -> float:
    if isinstance(data, str) and data in _NUMBERS:
        return _NUMBERS[data]
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise ValueError(f"{_shown(data)} is no {kind}")
    return float(data)


def _bytes(data: Any) -> bytes:
    """Returns bytes, which Avro's JSON has as text of the characters U+0000 to U+00FF."""
    found: bytes = _checked(data, str, "a string").encode("iso-8859-1")
    return found


def _checked(data: Any, kind: type, name: str) -> Any:
    if not isinstance(data, kind):
        raise ValueError(f"{_shown(data)} is not {name}")
    return data


def _shown(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 50 else f"{text[:50]}…"
