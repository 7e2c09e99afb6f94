"""Parses Avro schemas (specification 1.12) and maps them to Arrow types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from bowstring.values.errors import ValueSchemaError
from bowstring.values.json_schema import COLUMNS_MAX, schema_document


class ReferringSchema(NamedTuple):
    """A schema with those that it refers to.

    Attributes:
        text: its JSON, or parsed JSON, or a file's path.
        references: the same of the others, dependencies first.
        column: if not empty, values are of any type, and become the only column, of this name.
    """

    text: Any
    references: tuple[Any, ...] = ()
    column: str = ""


AvroSchema: TypeAlias = Mapping[str, Any] | str | Path | type | ReferringSchema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_ARROW: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
DECIMAL_DIGITS_MAX = 38
DEPTH_MAX = 100
"""Of types in types; Arrow's own code recurses, too."""


@dataclass
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass
class AvroType:
    """A parsed schema: `kind` is a primitive, or record, enum, fixed, array, map or union. `columns` counts
    it and the types in it.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    columns: int = 1

    def __post_init__(self) -> None:
        self.columns += sum(each.columns for each in self.branches)
        if self.items is not None:
            self.columns += self.items.columns

    @property
    def members(self) -> list[AvroType]:
        """The branches of a union that are not null; of another type, itself."""
        return [each for each in self.branches if each.kind != "null"] if self.kind == "union" else [self]

    @property
    def is_choice(self) -> bool:
        """Whether it is a union of several types besides null, which becomes a struct with a field for
        each.
        """
        return self.kind == "union" and len(self.members) > 1

    @property
    def only(self) -> AvroType:
        """The type of a union of one type and null."""
        return self.members[0] if self.kind == "union" and len(self.members) == 1 else self

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal that fits Arrow's 128 bits."""
        return self.logical == "decimal" and 0 < self.precision <= DECIMAL_DIGITS_MAX

    def arrow(self) -> pa.DataType:
        """The Arrow type of its values."""
        if self.kind == "union":
            if self.is_choice:
                return pa.struct([(f"member{i}", member.arrow()) for i, member in enumerate(self.members)])
            return self.only.arrow() if self.members else pa.null()
        return self._arrow_of_one()

    def _arrow_of_one(self) -> pa.DataType:
        if self.kind == "record":
            return pa.struct([(each.name, each.type.arrow()) for each in self.fields])
        if self.items is not None:
            item = self.items.arrow()
            return pa.list_(item) if self.kind == "array" else pa.map_(pa.string(), item)
        if self.is_decimal:
            return pa.decimal128(self.precision, self.scale)
        if self.kind == "fixed":
            return pa.binary(self.size)
        return _LOGICAL.get((self.kind, self.logical), _ARROW[self.kind])


def parse_avro(schema: AvroSchema) -> AvroType:
    """Parses a schema given as JSON text, parsed JSON, or a file's path.

    Raises:
        ValueSchemaError: it is not an Avro schema, or contains itself or more than COLUMNS_MAX types, which
            columns cannot represent.
    """
    whole = schema if isinstance(schema, ReferringSchema) else ReferringSchema(schema)
    parser = _Parser()
    for each in whole.references:
        parser.parse(_document(each), "")
    found = parser.parse(_document(whole.text), "")
    if found.columns > COLUMNS_MAX:
        raise ValueSchemaError(
            f"the Avro schema contains more than {COLUMNS_MAX} types, which columns cannot represent"
        )
    if whole.column:
        # A record of one field is encoded as the field.
        return AvroType("record", whole.column, fields=[AvroField(whole.column, found)])
    return found


def _document(schema: Any) -> Any:
    if isinstance(schema, Path) or (isinstance(schema, str) and schema not in PRIMITIVES):
        return schema_document(schema)
    return schema


class _Parser:
    """Parses one schema; keeps the named types."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}
        self.open: set[str] = set()
        self.depth = 0

    def parse(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, str):
            return self.reference(schema, namespace)
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ValueSchemaError(f"the Avro schema has more than {DEPTH_MAX} types in one another")
        found = self.compound(schema, namespace)
        self.depth -= 1
        return found

    def compound(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, list):
            return AvroType("union", branches=[self.parse(each, namespace) for each in schema])
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise ValueSchemaError(f"not an Avro schema: {str(schema)[:200]}")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace)
        if kind in _NAMED:
            return self.define(schema, kind, namespace)
        if kind in ("array", "map"):
            part = schema.get("items" if kind == "array" else "values")
            if part is None:
                raise ValueSchemaError(f"an Avro {kind} lacks its {'items' if kind == 'array' else 'values'}")
            return AvroType(kind, items=self.parse(part, namespace))
        found = self.reference(kind, namespace)
        return AvroType(found.kind, **_logical(schema)) if found.kind in PRIMITIVES else found

    def reference(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self.named or full in self.open else name
        if full in self.open:
            raise ValueSchemaError(f"the Avro type {full} contains itself, which columns cannot represent")
        if full not in self.named:
            raise ValueSchemaError(f"the Avro type {name} is not defined")
        return self.named[full]

    def define(self, schema: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        name = _part(schema, "name", str, f"an Avro {kind}")
        if "." in name:
            namespace = name.rpartition(".")[0]
        else:
            namespace = schema.get("namespace", namespace)
            name = f"{namespace}.{name}" if namespace else name
        found = AvroType("record" if kind == "error" else kind, name, _aliases(schema))
        what = f"the Avro {kind} {name}"
        self.open.add(name)
        if found.kind == "record":
            for each in _part(schema, "fields", list, what) if "fields" in schema else ():
                found.fields.append(self.field(each, namespace, what))
            found.columns += sum(each.type.columns for each in found.fields)
        elif kind == "enum":
            found.symbols = tuple(map(str, _part(schema, "symbols", list, what)))
            found.default_symbol = schema.get("default")
        else:
            found.size = _part(schema, "size", int, what)
            if found.size < 0:
                raise ValueSchemaError(f"{what} has a negative size, {found.size}")
            for attribute, value in _logical(schema).items():
                setattr(found, attribute, value)
        self.open.discard(name)
        self.named[name] = found
        return found

    def field(self, schema: Any, namespace: str, record: str) -> AvroField:
        if not isinstance(schema, Mapping):
            raise ValueSchemaError(f"{record} has a field that is no JSON object: {str(schema)[:200]}")
        name = _part(schema, "name", str, f"a field of {record}")
        if "type" not in schema:
            raise ValueSchemaError(f"the field {name} of {record} lacks its type")
        return AvroField(
            name,
            self.parse(schema["type"], namespace),
            _aliases(schema),
            "default" in schema,
            schema.get("default"),
        )


_JSON_TYPES = {str: "a string", list: "an array", int: "a number"}


def _part(schema: Mapping[str, Any], attribute: str, kind: type, what: str) -> Any:
    """Returns an attribute that a type must have.

    Raises:
        ValueSchemaError: it is not there, is empty, or has another type.
    """
    value = schema.get(attribute)
    if value is None or value == "":
        raise ValueSchemaError(f"{what} lacks its {attribute}")
    if not isinstance(value, (list, tuple) if kind is list else kind) or isinstance(value, bool):
        raise ValueSchemaError(f"{what}: {attribute} is {str(value)[:200]!r}, it must be {_JSON_TYPES[kind]}")
    return value


def _aliases(schema: Mapping[str, Any]) -> tuple[str, ...]:
    found = schema.get("aliases", ())
    return tuple(map(str, found)) if isinstance(found, (list, tuple)) else ()


def _logical(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a logical type; as the specification requires, ignores an invalid one."""
    logical = schema.get("logicalType")
    digits = [schema.get(name, 0) for name in ("precision", "scale")]
    if not isinstance(logical, str) or not all(isinstance(each, int) for each in digits):
        return {}
    return {"logical": logical, "precision": digits[0], "scale": digits[1]}
