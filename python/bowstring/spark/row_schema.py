"""Builds the columns for Spark: those of its own Kafka source, with decoded values if a format is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bowstring.clients.errors import ConfigError
from bowstring.spark.options import Shape

if TYPE_CHECKING:
    import pyarrow

# Key in a column's metadata for the options that `with_options` adds.
OPTIONS_KEY = "bowstring.options"
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def spark_schema(shape: Shape) -> StructType:
    """Returns all columns of a source, or those that the option `columns` names."""
    if shape.fused is not None:
        from bowstring.spark.fused import fused_schema

        found = fused_schema(shape)
        if found is not None:
            return found
    names = shape.columns or tuple(name for name in TYPES if name != "headers" or shape.include_headers)
    fields = [StructField(name, TYPES[name]) for name in names]
    if shape.value_options and "value" in names:
        from bowstring.spark.values import decoder

        at = names.index("value")
        fields[at : at + 1] = decoder(shape.value_options).fields
    return StructType(fields)


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Returns the schema of a table with the table's options in the metadata of its first column.

    Spark's catalog stores both, but passes only the schema to a source in Python when it reads a table.
    """
    first, *rest = schema.fields
    metadata = {**(first.metadata or {}), OPTIONS_KEY: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *rest])


def taken_options(schema: StructType) -> tuple[StructType, dict[str, str]]:
    """Returns the schema without metadata, and the options that `with_options` added, if any."""
    options: dict[str, str] = {}
    for each in schema.fields:
        options |= json.loads((each.metadata or {}).get(OPTIONS_KEY, "{}"))
    return StructType([StructField(f.name, f.dataType, f.nullable) for f in schema.fields]), options


def check(shape: Shape, wanted: StructType) -> None:
    """Refuses a schema that is not a part of the source's columns.

    Raises:
        ConfigError: a column is unknown or of another type.
    """
    everything = Shape(True, (), shape.value_options, shape.fused)
    there = {field.name: field.dataType for field in spark_schema(everything).fields}
    for field in wanted.fields:
        if field.name not in there:
            raise ConfigError(f"there is no column {field.name!r}; columns are {', '.join(there)}")
        if field.dataType != there[field.name]:
            raise ConfigError(
                f"column {field.name} is {there[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )


@lru_cache(64)
def _arrow(text: str) -> pyarrow.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(StructType.fromJson(json.loads(text)), timezone="UTC")


def arrow_schema(wanted: StructType) -> pyarrow.Schema:
    """Returns the Arrow schema that Spark requires for a schema."""
    return _arrow(wanted.json())
