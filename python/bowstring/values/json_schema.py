"""Converts schemas of JSON values: a pyarrow schema unchanged, or a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from bowstring.values.errors import ValueSchemaError

JsonSchema: TypeAlias = pa.Schema | pa.StructType | Mapping[str, Any] | str | Path | type

_WANTED = (
    "a pyarrow schema, such as pyarrow.schema({'id': pyarrow.int64()}), a struct type, a JSON Schema as a "
    "mapping, text or a file's path, or a dataclass, TypedDict, msgspec struct or pydantic model"
)
COLUMNS_MAX = 50_000
"""Types in a schema, each counted as often as it is used: a few lines can double them without end."""
_STRING_FORMATS = {
    "date-time": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "time": pa.time64("us"),
}


def schema_document(schema: Mapping[str, Any] | str | Path) -> Any:
    """Returns a JSON document given parsed, as text, or as a file's path.

    Raises:
        ValueSchemaError: it is none of these.
    """
    if isinstance(schema, Mapping):
        return schema
    text = str(schema)
    if isinstance(schema, Path) or not text.lstrip().startswith(("{", "[", '"')):
        try:
            text = Path(schema).read_text()
        except OSError as error:
            raise ValueSchemaError(f"the schema is neither JSON nor a readable file: {error}") from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueSchemaError(f"the schema is not JSON: {error}") from None
    except RecursionError:
        raise ValueSchemaError("the schema is nested too deeply") from None


def json_type(schema: JsonSchema) -> pa.StructType:
    """Returns the struct that a schema describes; required fields are not nullable.

    Raises:
        ValueSchemaError: the schema cannot be parsed, or describes something else.
    """
    if isinstance(schema, pa.Schema):
        return pa.struct(list(schema))
    if isinstance(schema, pa.StructType):
        return schema
    if not isinstance(schema, Mapping | str | Path):
        given = f"the class {schema.__name__}" if isinstance(schema, type) else f"a {type(schema).__name__}"
        raise ValueSchemaError(f"schema is {given}, it must be {_WANTED}")
    document = schema_document(schema)
    if not isinstance(document, Mapping):
        raise ValueSchemaError("a JSON Schema must be an object")
    found = _Reader(document).type(document)
    if not pa.types.is_struct(found):
        raise ValueSchemaError(f"a JSON value must be an object with properties, not {found}")
    return found


class _Reader:
    """Converts the parts of one JSON Schema to types."""

    def __init__(self, document: Mapping[str, Any]):
        self.document = document
        self.open: set[str] = set()
        self.count = 0

    def type(self, schema: Mapping[str, Any]) -> pa.DataType:
        self.count += 1
        if self.count > COLUMNS_MAX:
            raise ValueSchemaError(
                f"the JSON Schema contains more than {COLUMNS_MAX} types, which columns cannot represent"
            )
        if "$ref" in schema:
            return self.reference(schema["$ref"])
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                return self.type(_not_null(schema[keyword], keyword))
        kind = schema.get(
            "type", "object" if "properties" in schema else "string" if "enum" in schema else None
        )
        if isinstance(kind, list):
            kind = _not_null(kind, "type")
        if kind == "string":
            base64 = schema.get("contentEncoding") == "base64"
            return pa.binary() if base64 else _STRING_FORMATS.get(schema.get("format", ""), pa.string())
        if kind == "array":
            return pa.list_(self.type(schema.get("items", {})))
        if kind == "object":
            return self.object(schema)
        simple = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "null": pa.string()}
        if kind not in simple:
            raise ValueSchemaError(
                f"no type is known for {json.dumps(schema, default=repr)[:200]}; a schema is {_WANTED}"
            )
        return simple[kind]

    def object(self, schema: Mapping[str, Any]) -> pa.DataType:
        rest = schema.get("additionalProperties")
        if "properties" not in schema and isinstance(rest, Mapping):
            return pa.map_(pa.string(), self.type(rest))
        required = set(schema.get("required", ()))
        return pa.struct(
            [
                pa.field(name, self.type(part), nullable=name not in required or _allows_null(part))
                for name, part in schema.get("properties", {}).items()
            ]
        )

    def reference(self, pointer: str) -> pa.DataType:
        if not pointer.startswith("#"):
            raise ValueSchemaError(f"$ref {pointer} is outside the schema; move its target into $defs")
        if pointer in self.open:
            raise ValueSchemaError(f"{pointer} contains itself, which columns cannot represent")
        at: Any = self.document
        for step in pointer[1:].split("/")[1:]:
            try:
                at = at[step.replace("~1", "/").replace("~0", "~")]
            except (KeyError, TypeError):
                raise ValueSchemaError(f"$ref {pointer} does not exist in the schema") from None
        self.open.add(pointer)
        found = self.type(at)
        self.open.discard(pointer)
        return found


def _allows_null(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    alternatives = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
    return "null" in (kinds if isinstance(kinds, list) else [kinds]) or {"type": "null"} in alternatives


def _not_null(alternatives: list[Any], keyword: str) -> Any:
    """Returns the only alternative that is not null."""
    found = [each for each in alternatives if each not in ("null", {"type": "null"})]
    if len(found) != 1:
        raise ValueSchemaError(
            f"columns cannot represent {keyword} of several types: {json.dumps(alternatives)[:200]}"
        )
    return found[0]
