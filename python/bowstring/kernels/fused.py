"""Combines where, by and aggregate into one pass over batches, with partial results that can be merged.

Every batch gives a partial result. Partial results of any number of batches, tasks and machines are merged by
the same grouping with merging aggregates (a count by adding, a mean from sum and count).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from bowstring.kernels.function import Kernel, KernelError

FUNCTIONS = ("count", "sum", "min", "max", "mean")
COUNT = "count"
# Columns of a record that `by` accepts by name.
PLAIN = {"partition": pa.int32(), "timestamp_type": pa.int32(), "key": pa.binary(), "topic": pa.string()}
TYPES = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "string": pa.string(),
}

Aggregate = str | tuple[str, Kernel]


class Part:
    """One column of a partial result.

    Attributes:
        name: of the column.
        kernel: whose results are aggregated; None to count records.
        function: aggregate of the partial result: count, sum, min or max.
    """

    def __init__(self, name: str, kernel: Kernel | None, function: str):
        self.name = name
        self.kernel = kernel
        self.function = function

    @property
    def merge(self) -> str:
        """Aggregate that merges partial results."""
        return "sum" if self.function == COUNT else self.function

    @property
    def type(self) -> pa.DataType:
        """Type of the column."""
        if self.kernel is None or self.function == COUNT:
            return pa.int64()
        # Count booleans by summing them.
        summed = self.function == "sum" and self.kernel.result == "bool"
        return pa.int64() if summed else TYPES[self.kernel.result]


class Fused:
    """The combined functions that run inside the read.

    Args:
        where: records for which it returns false are left out.
        aggregate: by name of a result column: "count", or (function, kernel) with sum, min, max or mean.
        by: by name of a result column: a kernel, or "partition", "timestamp_type", "key" or "topic".

    Raises:
        KernelError: the arguments do not fit together.
    """

    def __init__(
        self,
        where: Kernel | None = None,
        aggregate: Mapping[str, Aggregate] | None = None,
        by: Mapping[str, Kernel | str] | None = None,
    ):
        self.where = where
        self.aggregate = dict(aggregate or {})
        self.by = dict(by or {})
        if where is not None and (not isinstance(where, Kernel) or where.result != "bool"):
            raise KernelError("where needs a kernel that returns bool: @bowstring.kernel def f(…) -> bool")
        if self.by and not self.aggregate:
            raise KernelError('by needs an aggregate, for example aggregate={"records": "count"}')
        twice = self.by.keys() & self.aggregate.keys()
        if twice:
            raise KernelError(f"{min(twice)} names both a group and an aggregate")
        for name, given in self.by.items():
            if not isinstance(given, Kernel) and given not in PLAIN:
                raise KernelError(f"by[{name!r}] is {given!r}: a kernel, or one of {', '.join(PLAIN)}")
        self.parts = [part for name, given in self.aggregate.items() for part in _parts(name, given)]

    @property
    def columns(self) -> set[str]:
        """Columns of records that are needed."""
        kernels = [self.where, *self.by.values(), *(part.kernel for part in self.parts)]
        found = {name for each in kernels if isinstance(each, Kernel) for name in each.columns}
        return found | {name for name in self.by.values() if isinstance(name, str)}

    # ------------------------------------------------------------ records

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the records for which `where` is true."""
        if self.where is None or not batch.num_rows:
            return batch
        mask = self.where.over(batch)
        arrays = [_filtered(array, mask) for array in batch.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    # ------------------------------------------------------------ aggregates

    @property
    def partial_schema(self) -> pa.Schema:
        """Schema of partial results."""
        return pa.schema([*self._group_fields(), *(pa.field(part.name, part.type) for part in self.parts)])

    @property
    def schema(self) -> pa.Schema:
        """Schema of results."""
        partial = self.partial_schema
        fields = [
            pa.field(name, pa.float64()) if _function(given) == "mean" else partial.field(name)
            for name, given in self.aggregate.items()
        ]
        return pa.schema([*self._group_fields(), *fields])

    def _group_fields(self) -> list[pa.Field]:
        return [
            pa.field(name, TYPES[given.result] if isinstance(given, Kernel) else PLAIN[given])
            for name, given in self.by.items()
        ]

    def partial(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Returns the partial result of one batch; None when none of its records counts."""
        left = self.filter(batch)
        if not left.num_rows:
            return None
        arrays: dict[str, Any] = {
            name: given.over(left) if isinstance(given, Kernel) else left.column(given).cast(PLAIN[given])
            for name, given in self.by.items()
        }
        for number, part in enumerate(self.parts):
            arrays[f"part {number}"] = (
                pa.nulls(left.num_rows, pa.int8()) if part.kernel is None else part.kernel.over(left)
            )
        asked = [(f"part {number}", part.function, _options(part)) for number, part in enumerate(self.parts)]
        return self._grouped(pa.table(arrays), asked)

    def merge(self, partials: Iterable[pa.RecordBatch | None]) -> pa.RecordBatch:
        """Merges many partial results into one."""
        found = [each for each in partials if each is not None and each.num_rows]
        if len(found) < 2:
            return found[0] if found else _empty(self.partial_schema)
        table = pa.Table.from_batches(found, schema=self.partial_schema)
        return self._grouped(table, [(part.name, part.merge, None) for part in self.parts])

    def _grouped(self, table: pa.Table, asked: list[Any]) -> pa.RecordBatch:
        schema = self.partial_schema
        grouped = table.group_by(list(self.by), use_threads=False).aggregate(asked)
        names = [*self.by, *(f"{column}_{function}" for column, function, _ in asked)]
        columns = [
            grouped.column(name).combine_chunks().cast(field.type)
            for name, field in zip(names, schema, strict=True)
        ]
        arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def finish(self, partials: Iterable[pa.RecordBatch | None]) -> pa.Table:
        """Returns the result; without `by` it has one row, with count 0 and nulls when there was no
        record.
        """
        merged = self.merge(partials)
        columns = [merged.column(name) for name in self.by]
        for name, given in self.aggregate.items():
            if _function(given) == "mean":
                columns.append(_mean(merged.column(_sum(name)), merged.column(_count(name))))
            else:
                columns.append(merged.column(name))
        table = pa.Table.from_arrays(columns, schema=self.schema)
        if self.by or table.num_rows:
            return table
        nothing = {name: 0 if given == COUNT else None for name, given in self.aggregate.items()}
        return pa.Table.from_pylist([nothing], schema=self.schema)


def _filtered(array: pa.Array, mask: pa.Array) -> pa.Array:
    if pa.types.is_binary_view(array.type):
        # pyarrow cannot filter views.
        return array.cast(pa.binary()).filter(mask).cast(array.type)
    return array.filter(mask)


def _parts(name: str, given: Aggregate) -> list[Part]:
    function = _function(given)
    if given == COUNT:
        return [Part(name, None, COUNT)]
    kernel = given[1] if isinstance(given, tuple) and len(given) == 2 else None
    if function not in FUNCTIONS or not isinstance(kernel, Kernel):
        raise KernelError(
            f'aggregate[{name!r}] is {given!r}: "count", or (function, kernel) with one of {FUNCTIONS[1:]}'
        )
    if kernel.result not in ("bool", "int64", "double"):
        raise KernelError(f"aggregate[{name!r}]: kernel {kernel.name} must return a number")
    if function == "mean":
        return [Part(_sum(name), kernel, "sum"), Part(_count(name), kernel, COUNT)]
    return [Part(name, kernel, function)]


def _function(given: Any) -> str:
    return str(given[0] if isinstance(given, tuple) and given else given)


def _sum(name: str) -> str:
    return f"{name}.sum"


def _count(name: str) -> str:
    return f"{name}.count"


def _options(part: Part) -> Any:
    import pyarrow.compute as pc

    return pc.CountOptions(mode="all") if part.function == COUNT else None


def _mean(total: pa.Array, count: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.divide(total.cast(pa.float64()), count.cast(pa.float64()))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
