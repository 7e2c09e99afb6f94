"""Kernels inside the read of the Python engine: packed into an option, run by the tasks.

A kernel travels as Python's UDFs do, pickled with its code, so that what a notebook defines runs on
executors.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.types import StructType

from bowstring.kernels.fused import Fused
from bowstring.spark.options import Shape
from bowstring.spark.row_schema import arrow_schema

MERGE_AT = 64


def pack(fused: Fused) -> str:
    """As text, for the option `fused`."""
    from pyspark import cloudpickle

    return base64.b64encode(cloudpickle.dumps(fused)).decode()  # type: ignore[no-untyped-call]


@lru_cache(16)
def unpack(text: str) -> Fused:
    """What `pack` made. Like a UDF it is code of the user who wrote the query, run with Spark's rights."""
    from pyspark import cloudpickle

    found = cloudpickle.loads(base64.b64decode(text))
    assert isinstance(found, Fused), found
    return found


def fused_schema(shape: Shape) -> StructType | None:
    """Of partial results; None when there is no aggregate, so that records are read."""
    from pyspark.sql.pandas.types import from_arrow_schema

    fused = unpack(shape.fused or "")
    return from_arrow_schema(fused.partial_schema) if fused.aggregate else None


def partial_result(
    fused: Fused, wanted: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One partial result of all batches of a range; nothing when no record counts."""
    partials: list[pa.RecordBatch | None] = []
    for batch in batches:
        partials.append(fused.partial(batch))
        if len(partials) == MERGE_AT:
            partials = [fused.merge(partials)]
    merged = fused.merge(partials)
    if merged.num_rows:
        schema = arrow_schema(wanted)
        arrays = [merged.column(field.name).cast(field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
