"""Typed values in the Python engine: the options `value.format` and `value.schema`, and their columns.

They are those of the columnar engine (docs/typed-values.md): `value` becomes a struct, or with
value.mode=flatten one column for each field, and `_error` says what is wrong with a value that does not
decode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.spark.ddl import parse_ddl

ERROR_COLUMN = "_error"
MODES = ("permissive", "failfast", "dropmalformed")


class BadValueError(ClientError):
    """A value does not decode, and the option `mode` is FAILFAST."""


class ValueDecoder:
    """Decodes the column `value`.

    Args:
        options: by what follows `value.`; `on_error` is the option `mode`.
    """

    def __init__(self, options: Mapping[str, str]):
        self.format = _format(options)
        self.flat = _one_of("value.mode", options.get("mode", "struct"), ("struct", "flatten")) == "flatten"
        self.on_error = _one_of("mode", options.get("on_error", MODES[0]), MODES)

    @property
    def names(self) -> list[str]:
        """Of the columns instead of `value`."""
        return [field.name for field in self.fields]

    @property
    def fields(self) -> list[StructField]:
        """Columns instead of `value`."""
        value: StructType = from_arrow_schema(pa.schema(list(self.format.schema)))
        columns = list(value.fields) if self.flat else [StructField("value", value)]
        return [*columns, StructField(ERROR_COLUMN, StringType())]

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array | None]:
        """Columns by name, and which rows stay (None for all).

        Raises:
            BadValueError: a value is bad, and bad ones may not be.
        """
        decoded, errors = self.format.decode(values)
        keep = None
        if errors is None:
            errors = pa.nulls(len(values), pa.string())
        elif errors.null_count < len(errors):
            if self.on_error == "failfast":
                first = errors.drop_null()[0].as_py()
                raise BadValueError(f"a value does not decode: {first}. mode=PERMISSIVE would go on")
            keep = pc.is_null(errors) if self.on_error == "dropmalformed" else None
        if not self.flat:
            return {"value": decoded, ERROR_COLUMN: errors}, keep
        names = [field.name for field in decoded.type]
        # flatten() puts the struct's own nulls into its fields.
        return dict(zip(names, decoded.flatten(), strict=True)) | {ERROR_COLUMN: errors}, keep


def decoder(options: Mapping[str, str]) -> ValueDecoder:
    """The decoder for options, made once in each process."""
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

    kind = _one_of("value.format", options["format"], ("json", "avro", "protobuf"))
    schema = options.get("schema")
    if not schema:
        raise ConfigError(f"option value.format={kind} needs value.schema")
    framing = {"framing": options["framing"]} if options.get("framing", "none") != "none" else {}
    if kind == "json":
        return bowstring.Json(_json_schema(schema))
    if kind == "avro":
        return bowstring.Avro(_inline(schema), **framing)
    if "message" not in options:
        raise ConfigError("option value.format=protobuf needs value.message, the message's full name")
    return bowstring.Protobuf((schema, options["message"]), **framing)


def _inline(text: str) -> str:
    """The text itself, or that of the file it names."""
    return Path(text).read_text() if text.endswith((".json", ".avsc", ".ddl")) else text


def _json_schema(text: str) -> Any:
    """A JSON Schema as it is; a DDL string and Spark's JSON of a type as an Arrow schema."""
    text = _inline(text).strip()
    if not text.startswith("{"):
        return to_arrow_schema(parse_ddl(text), timezone="UTC")
    found = json.loads(text)
    if found.get("type") == "struct":
        return to_arrow_schema(StructType.fromJson(found), timezone="UTC")
    return found
