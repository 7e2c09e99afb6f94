"""The columns that Spark sees: those of its own Kafka source, and values decoded where a format is given."""

from __future__ import annotations

import json
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
    """All columns of a source, or those that the option `columns` names."""
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


def check(shape: Shape, wanted: StructType) -> None:
    """Refuses a schema that is no part of what there is.

    Raises:
        ConfigError: a column is unknown or of another type.
    """
    everything = Shape(True, (), shape.value_options, shape.fused)
    there = {field.name: field.dataType for field in spark_schema(everything).fields}
    for field in wanted.fields:
        if field.name not in there:
            raise ConfigError(f"there is no column {field.name!r}; there are {', '.join(there)}")
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
    """Exactly what Spark takes for a schema."""
    return _arrow(wanted.json())
