"""Writes types as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from bowstring.schemas.avro.avro_type import DEPTH_MAX, PRIMITIVES, AvroField, AvroType
from bowstring.schemas.avro.default_value import MISSING, Float, converted, java_float
from bowstring.schemas.avro.json_text import java_order, quoted, write_json
from bowstring.schemas.errors import InvalidSchemaError


class Form(Enum):
    """How a schema is written."""

    # As Java's `Schema.toString()`: everything, in the order of the text where order is kept at all.
    CANONICAL = "canonical"
    # The same with sorted properties and aliases, to compare schemas.
    SORTED = "sorted"
    # As Confluent's normalization, to be parsed again.
    NORMAL = "normal"


class TypeWriter:
    """Writes one schema; a named type is written out where it occurs first.

    Args:
        form: how.
        known: full names of types that are not written out.
    """

    def __init__(self, form: Form, known: Iterable[str] = ()) -> None:
        self._form = form
        self._known = set(known)
        self._depth = 0

    def write(self, schema: AvroType, space: str | None = None) -> str:
        """The JSON text of a type inside a namespace.

        Raises:
            InvalidSchemaError: it is so deep that it could not be read again.
        """
        if schema.kind in PRIMITIVES:
            if not schema.properties:
                return f'"{schema.kind}"'
            return f'{{"type":"{schema.kind}"{self._properties(schema)}}}'
        if self._depth > DEPTH_MAX:
            raise InvalidSchemaError(f"types are nested more than {DEPTH_MAX} levels deep when written out")
        self._depth += 1
        text = self._written(schema, space)
        self._depth -= 1
        return text

    def _written(self, schema: AvroType, space: str | None) -> str:
        if schema.kind == "union":
            return f"[{','.join([self.write(branch, space) for branch in schema.branches])}]"
        if schema.items is not None:
            of = "items" if schema.kind == "array" else "values"
            inner = self.write(schema.items, space)
            return f'{{"type":"{schema.kind}","{of}":{inner}{self._properties(schema)}}}'
        return self._named(schema, space)

    def _named(self, schema: AvroType, space: str | None) -> str:
        name = schema.name
        assert name is not None
        if name.full in self._known:
            return quoted(name.full if self._form is Form.NORMAL else name.within(space))
        self._known.add(name.full)
        parts = [f'{{"type":"{self._word(schema)}","name":']
        if self._form is Form.NORMAL:
            parts.append(quoted(name.full))
        else:
            parts.append(quoted(name.simple))
            if name.space != space:
                parts.append(f',"namespace":{quoted(name.space or "")}')
        if schema.doc or (schema.doc is not None and self._form is not Form.NORMAL):
            parts.append(f',"doc":{quoted(schema.doc)}')
        parts += self._body(schema)
        parts.append(self._properties(schema))
        if schema.aliases:
            parts.append(f',"aliases":{self._strings(self._aliases(schema))}')
        return "".join(parts) + "}"

    def _word(self, schema: AvroType) -> str:
        return "error" if schema.is_error and self._form is Form.CANONICAL else schema.kind

    def _body(self, schema: AvroType) -> list[str]:
        if schema.kind == "fixed":
            return [f',"size":{schema.size}']
        if schema.kind == "enum":
            symbols = f',"symbols":[{",".join(map(quoted, schema.symbols))}]'
            default = schema.default_symbol
            return [symbols] if default is None else [symbols, f',"default":{quoted(default)}']
        assert schema.name is not None
        space = schema.name.space
        return [f',"fields":[{",".join([self._field(each, space) for each in schema.fields.values()])}]']

    def _field(self, field: AvroField, space: str | None) -> str:
        parts = [f'{{"name":{quoted(field.name)},"type":{self.write(field.type, space)}']
        if field.doc is not None:
            parts.append(f',"doc":{quoted(field.doc)}')
        if field.has_default:
            parts.append(self._default(field))
        if field.order != "ascending":
            parts.append(f',"order":"{field.order}"')
        if field.aliases:
            parts.append(f',"aliases":{self._strings(field.aliases)}')
        if field.properties:
            parts.append(self._members(field.properties))
        return "".join(parts) + "}"

    def _default(self, field: AvroField) -> str:
        value = field.default
        if self._form is Form.NORMAL:
            value = converted(value, field.type)
            if value is MISSING:
                return ""
            value = _plain(value)
        return f',"default":{write_json(value, sort=self._form is not Form.CANONICAL)}'

    def _aliases(self, schema: AvroType) -> list[str]:
        assert schema.name is not None
        space = schema.name.space
        if self._form is not Form.NORMAL:
            return [alias.within(space) for alias in schema.aliases]
        dot = "" if space is None else "."
        return [alias.full if alias.space else dot + alias.simple for alias in schema.aliases]

    def _strings(self, strings: Iterable[str]) -> str:
        if self._form is not Form.CANONICAL:
            strings = sorted(strings, key=java_order)
        return f"[{','.join(map(quoted, strings))}]"

    def _properties(self, schema: AvroType) -> str:
        properties = schema.properties
        if not properties:
            return ""
        if self._form is not Form.NORMAL or not schema.logical:
            return self._members(properties)
        first: dict[str, Any] = {"logicalType": schema.logical}
        if schema.logical == "decimal":
            first["precision"] = properties["precision"]
            if properties.get("scale"):
                first["scale"] = properties["scale"]
        rest = {key: value for key, value in properties.items() if key not in first}
        return self._members(first, sort=False) + (self._members(rest) if rest else "")

    def _members(self, members: dict[str, Any], *, sort: bool | None = None) -> str:
        """The members of an object, each after a comma."""
        by_name = self._form is not Form.CANONICAL
        keys = sorted(members, key=java_order) if (by_name if sort is None else sort) else list(members)
        return "".join(f",{quoted(key)}:{write_json(members[key], sort=by_name)}" for key in keys)


def _plain(value: Any) -> Any:
    """A converted default with the numbers that its text will have."""
    if isinstance(value, Float):
        return float(java_float(value).strip('"'))
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
