"""Decodes typed values in the Python engine: the options `value.format` and `value.schema`, and their
columns.

The options are those of the columnar engine (docs/guide/typed-values.md): `value` becomes a struct, or with
value.mode=flatten one column for each field, and `_error` has the reason for a value that does not decode.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.spark.avro_schemas import schemas_by_id
from bowstring.spark.ddl import parse_ddl
from bowstring.spark.registry_format import registry_format

ERROR_COLUMN = "_error"
MODES = ("permissive", "failfast", "dropmalformed")


class BadValueError(ClientError):
    """A value does not decode, and the option `mode` is FAILFAST."""


class ValueDecoder:
    """Decodes the column `value`.

    Args:
        options: by the name after `value.`; `on_error` is the option `mode`.
    """

    def __init__(self, options: Mapping[str, str]):
        self.format = _format(options)
        self.flat = _one_of("value.mode", options.get("mode", "struct"), ("struct", "flatten")) == "flatten"
        self.on_error = _one_of("mode", options.get("on_error", MODES[0]), MODES)

    @property
    def names(self) -> list[str]:
        """Names of the columns that replace `value`."""
        return [field.name for field in self.fields]

    @property
    def fields(self) -> list[StructField]:
        """Columns that replace `value`."""
        value: StructType = from_arrow_schema(pa.schema(list(plain(self.format.type))))
        columns = list(value.fields) if self.flat else [StructField("value", value)]
        return [*columns, StructField(ERROR_COLUMN, StringType())]

    @property
    def needs_headers(self) -> bool:
        """Whether a header of the record may name the schema of its value."""
        return hasattr(self.format, "decode_records")

    def decode(
        self, values: pa.Array, headers: pa.Array | None, record: Callable[[int], str]
    ) -> tuple[dict[str, pa.Array], pa.Array | None]:
        """Returns columns by name, and which rows stay (None for all).

        Args:
            headers: of the records, for a format that needs them.
            record: returns the name of a row's record for errors.

        Raises:
            BadValueError: a value is bad, and the mode is FAILFAST.
        """
        if self.needs_headers:
            decoded, errors = self.format.decode_records(values, headers)
        else:
            decoded, errors = self.format.decode(values)
        keep = None
        if errors is None:
            errors = pa.nulls(len(values), pa.string())
        elif errors.null_count < len(errors):
            if self.on_error == "failfast":
                row = pc.index(pc.is_valid(errors), True).as_py()
                raise BadValueError(
                    f"the value of {record(row)} does not decode: {errors[row].as_py()}. Set "
                    "mode=PERMISSIVE to continue"
                )
            keep = pc.is_null(errors) if self.on_error == "dropmalformed" else None
        if not self.flat:
            return {"value": decoded, ERROR_COLUMN: errors}, keep
        names = [field.name for field in decoded.type]
        # flatten() also applies the struct's nulls to its fields.
        return dict(zip(names, decoded.flatten(), strict=True)) | {ERROR_COLUMN: errors}, keep


def decoder(options: Mapping[str, str]) -> ValueDecoder:
    """Returns the decoder for options, created once in each process."""
    return _decoder(json.dumps(dict(options), sort_keys=True))


@lru_cache(16)
def _decoder(text: str) -> ValueDecoder:
    return ValueDecoder(json.loads(text))


def _one_of(name: str, text: str, words: tuple[str, ...]) -> str:
    if text.strip().lower() not in words:
        raise ConfigError(f"option {name} is {text!r}, it must be one of {', '.join(words)}")
    return text.strip().lower()


def _format(options: Mapping[str, str]) -> Any:
    import bowstring

    kind = _one_of("value.format", options["format"], ("json", "avro", "protobuf", "registry"))
    if kind == "registry":
        return registry_format(options)
    schema = options.get("schema")
    if not schema:
        raise ConfigError(f"option value.format={kind} needs value.schema")
    framed = _one_of("value.framing", options.get("framing", "none"), ("none", "confluent")) == "confluent"
    framing: Literal["confluent"] | None = "confluent" if framed else None
    if kind == "json":
        return bowstring.Json(_json_schema(schema), framing=framing)
    if kind == "avro":
        schemas = schemas_by_id(options["schemas"]) if "schemas" in options else None
        return bowstring.Avro(schema, framing=framing, schemas=schemas)
    if "message" not in options:
        raise ConfigError("option value.format=protobuf needs value.message, the message's full name")
    return bowstring.Protobuf((base64.b64decode(schema), options["message"]), framing=framing)


def _json_schema(text: str) -> Any:
    """Returns a JSON Schema unchanged, and a DDL string or Spark's JSON of a type as an Arrow schema."""
    if not text.lstrip().startswith("{"):
        return to_arrow_schema(parse_ddl(text), timezone="UTC")
    found = json.loads(text)
    if found.get("type") == "struct":
        return to_arrow_schema(StructType.fromJson(found), timezone="UTC")
    return found


def plain(kind: pa.DataType) -> pa.DataType:
    """Returns the nearest type that Spark accepts: signed numbers, microseconds, no views and no
    dictionaries.

    Raises:
        ConfigError: Spark has no such type.
    """
    t = pa.types
    if t.is_struct(kind):
        return pa.struct([pa.field(each.name, plain(each.type), each.nullable) for each in kind])
    if t.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_type))
    return plain(kind.value_type) if t.is_dictionary(kind) else _plain_atom(kind)


def _plain_atom(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time(kind):
        raise ConfigError("Spark has no type for a time of day: make it a string in value.schema")
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return next((nearest for test, nearest in _NEAREST if test(kind)), kind)


_NEAREST: tuple[tuple[Any, pa.DataType], ...] = (
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_duration, pa.duration("us")),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
)
