"""Runs kernels inside the read of the Python engine: packs them into an option, which the tasks unpack.

Like Python UDFs, kernels are pickled with their code, so that kernels defined in a notebook run on executors.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.types import StructType

from bowstring.kernels.fused import Fused
from bowstring.spark.options import Shape

MERGE_AT = 64


def pack(fused: Fused) -> str:
    """Returns the kernels as text, for the option `fused`."""
    from pyspark import cloudpickle

    return base64.b64encode(cloudpickle.dumps(fused)).decode()  # type: ignore[no-untyped-call]


@lru_cache(16)
def unpack(text: str) -> Fused:
    """Reverses `pack`. Like a UDF, the result is code of the query's user, and runs with Spark's rights."""
    from pyspark import cloudpickle

    found = cloudpickle.loads(base64.b64decode(text))
    assert isinstance(found, Fused), found
    return found


def fused_schema(shape: Shape) -> StructType | None:
    """Returns the schema of partial results; None when there is no aggregate, so that records are read."""
    from pyspark.sql.pandas.types import from_arrow_schema

    fused = unpack(shape.fused or "")
    return from_arrow_schema(fused.partial_schema) if fused.aggregate else None


def partial_result(
    fused: Fused, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields one partial result of all batches of a range, in `schema`; nothing when no record counts."""
    partials: list[pa.RecordBatch | None] = []
    for batch in batches:
        partials.append(fused.partial(batch))
        if len(partials) == MERGE_AT:
            partials = [fused.merge(partials)]
    merged = fused.merge(partials)
    if merged.num_rows:
        arrays = [merged.column(field.name).cast(field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
