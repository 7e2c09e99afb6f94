"""Plans how values of a writer's Avro schema become columns of a reader's schema: schema resolution before
decoding.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from bowstring.values.avro_schema import AvroField, AvroType
from bowstring.values.errors import ValueSchemaError

if TYPE_CHECKING:
    from bowstring._native.values.avro_decode import AvroPlan

# In the order of avro_decode.Kind and Target.
KINDS = {
    name: code
    for code, name in enumerate(
        (
            *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
            *("fixed", "enum", "array", "map", "record", "union", "default", "wrong"),
        )
    )
}
_SAME, _TO_FLOAT, _TO_DOUBLE, _TO_DECIMAL = range(4)
_CHOICE = 1  # target: a union that becomes a struct
_AROUND, _OVER = -1, -2  # special places
_PER_SECOND = {"time-millis": 10**3, "time-micros": 10**6}
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def plan(writer: AvroType, reader: AvroType | None, place: int = _AROUND, path: str = "") -> AvroPlan:
    """Returns the plan of avro_decode for values of `writer`, see AvroDecoder.add.

    Args:
        reader: the resulting type; None: the values are skipped.
        place: of the column, among those of the enclosing part.

    Raises:
        ValueSchemaError: the reader's type cannot hold the writer's values.
    """
    if reader is None:
        return _over(writer, path)
    if writer.kind == "union":
        return _union(writer, reader, place, path)
    if reader.is_choice:
        member = _match(writer, reader.members)
        if member is None:
            raise ValueSchemaError(
                f"the reader's union has no branch for {writer.name or writer.kind} ({path})"
            )
        return _node("record", place, path, parts=[plan(writer, reader.members[member], member, path)])
    reader = reader.only
    if not _matches(writer, reader):
        raise ValueSchemaError(
            f"{path or 'the value'} is written as {writer.name or writer.kind} and cannot be read as "
            f"{reader.name or reader.kind}"
        )
    if writer.kind == "record":
        return _record(writer, reader, place, path)
    if writer.items is not None:
        inner = 1 if writer.kind == "map" else 0
        suffix = "{}" if writer.kind == "map" else "[]"
        return _node(writer.kind, place, path, parts=[plan(writer.items, reader.items, inner, path + suffix)])
    return _leaf(writer, reader, place, path)


def _node(
    kind: str, place: int, path: str, *, target: int = _SAME, size: int = 0, precision: int = 0,
    text: bytes = b"", symbols: list[bytes | None] | None = None, parts: list[Any] | None = None,
) -> AvroPlan:  # fmt: skip
    return KINDS[kind], place, target, path, size, precision, text, symbols or [], parts or []


def _over(writer: AvroType, path: str) -> AvroPlan:
    parts = [each.type for each in writer.fields] + writer.branches + ([writer.items] if writer.items else [])
    symbols: list[bytes | None] = [each.encode() for each in writer.symbols]
    over = [_over(part, path) for part in parts]
    return _node(writer.kind, _OVER, path, size=writer.size, symbols=symbols, parts=over)


def _union(writer: AvroType, reader: AvroType, place: int, path: str) -> AvroPlan:
    parts = []
    for branch in writer.branches:
        member = _match(branch, reader.members)
        if branch.kind == "null":
            parts.append(_node("null", _OVER, path))
        elif member is None:
            parts.append(_node("wrong", _OVER, path))
        else:
            at = member if reader.is_choice else _AROUND
            parts.append(plan(branch, reader.members[member], at, path))
    return _node("union", place, path, target=_CHOICE if reader.is_choice else _SAME, parts=parts)


def _match(writer: AvroType, members: list[AvroType]) -> int | None:
    """Returns the first member of the same type, or else the first to which the writer's type is promoted."""
    for i, member in enumerate(members):
        if member.kind == writer.kind and member.name == writer.name:
            return i
    return next((i for i, member in enumerate(members) if _matches(writer, member)), None)


def _matches(writer: AvroType, reader: AvroType) -> bool:
    if writer.is_decimal or reader.is_decimal:
        return writer.is_decimal and reader.is_decimal and writer.scale == reader.scale
    if writer.kind == reader.kind:
        if writer.kind == "fixed":
            return writer.size == reader.size
        times = ("time", "date", "local")
        return not writer.logical.startswith(times) or not reader.logical or writer.logical == reader.logical
    return reader.kind in _PROMOTIONS.get(writer.kind, ())


def _record(writer: AvroType, reader: AvroType, place: int, path: str) -> AvroPlan:
    """Plans the writer's fields in the order of the bytes, then the fields that only the reader has."""
    parts = []
    written = {each.name for each in writer.fields}
    places: dict[str, int] = {}
    for i, mine in enumerate(reader.fields):
        for name in (mine.name, *mine.aliases):
            if name in written:
                places[name] = i
                break
    for theirs in writer.fields:
        below = f"{path}.{theirs.name}" if path else theirs.name
        at = places.get(theirs.name, _OVER)
        parts.append(plan(theirs.type, reader.fields[at].type if at >= 0 else None, at, below))
    for i, mine in enumerate(reader.fields):
        if i not in places.values() and mine.has_default and mine.default is not None:
            parts.append(_default(mine, i, f"{path}.{mine.name}" if path else mine.name))
    return _node("record", place, path, parts=parts)


def _default(mine: AvroField, place: int, path: str) -> AvroPlan:
    # The default of a union is a value of its first branch.
    kind = mine.type.branches[0] if mine.type.kind == "union" else mine.type
    inner = plan(kind, mine.type, _AROUND, path)
    return _node("default", place, path, text=binary(kind, mine.default), parts=[inner])


def _leaf(writer: AvroType, reader: AvroType, place: int, path: str) -> AvroPlan:
    kind, target, precision = writer.kind, _SAME, 0
    symbols: list[bytes | None] = []
    if kind in ("int", "long", "float") and reader.kind != kind:
        target = {"float": _TO_FLOAT, "double": _TO_DOUBLE}.get(reader.kind, _SAME)
    if {kind, reader.kind} == {"bytes", "string"}:
        kind = "string"  # either way it must be UTF-8
    if writer.is_decimal:
        target, precision = _TO_DECIMAL, reader.precision
    if kind == "enum":
        known = set(reader.symbols)
        symbols = [(each if each in known else reader.default_symbol) for each in writer.symbols]  # type: ignore[misc]
        symbols = [each.encode() if isinstance(each, str) else None for each in symbols]
    size = _PER_SECOND.get(reader.logical, 0) if kind in ("int", "long") else writer.size
    return _node(kind, place, path, target=target, size=size, precision=precision, symbols=symbols)


def binary(schema: AvroType, value: Any) -> bytes:
    """Returns Avro's binary encoding of a default from a schema's JSON.

    Raises:
        ValueSchemaError: the default does not fit its type.
    """
    try:
        return _binary(schema, value)
    except (TypeError, ValueError, KeyError, AttributeError, struct.error) as error:
        name = schema.name or schema.kind
        raise ValueSchemaError(f"the default {value!r} does not fit {name}: {error}") from None


def _long(value: int) -> bytes:
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _binary(schema: AvroType, value: Any) -> bytes:  # noqa: PLR0911 (a case for each type)
    kind = schema.kind
    if kind == "union":
        return _long(0) + _binary(schema.branches[0], value)
    if kind == "record":
        return b"".join(_binary(each.type, value.get(each.name, each.default)) for each in schema.fields)
    if schema.items is not None:
        items = value if kind == "array" else [*value.items()]
        parts = [
            _binary(schema.items, item)
            if kind == "array"
            else _text(item[0]) + _binary(schema.items, item[1])
            for item in items
        ]
        return (_long(len(parts)) + b"".join(parts) if parts else b"") + b"\0"
    if kind == "enum":
        return _long(schema.symbols.index(value))
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind in ("int", "long"):
        return _long(int(value))
    if kind == "boolean":
        return b"\1" if value else b"\0"
    if kind == "null":
        return b""
    if kind == "string":
        return _text(value)
    raw: bytes = value.encode("latin-1")
    return raw if kind == "fixed" else _long(len(raw)) + raw


def _text(value: str) -> bytes:
    raw = value.encode()
    return _long(len(raw)) + raw
