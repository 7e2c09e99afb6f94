"""Builds Arrow record batches: their schema, and arrays from buffers that native code has filled.

pyarrow is imported on first use, so that clients that read single records do not need it.
"""

from __future__ import annotations

import array
import itertools
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from bowstring._native.arrow.decode import COLUMN_BITS, ArrowRows
from bowstring.clients.choices import Layout, TimestampUnit
from bowstring.clients.errors import ConfigError, MissingPackageError

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: tuple[str, ...] = tuple(COLUMN_BITS)
LAYOUTS: tuple[str, ...] = get_args(Layout)
TIMESTAMP_UNITS: tuple[str, ...] = get_args(TimestampUnit)


@cache
def pyarrow() -> Any:
    """Imports and returns pyarrow.

    Raises:
        MissingPackageError: pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise MissingPackageError("pyarrow", "arrow") from error
    return pyarrow


class ArrowFormat:
    """The requested columns and their layout.

    Args:
        columns: names from COLUMNS, in the requested order; None for all. Other columns are not decoded.
        layout: of keys and values: "binary_view" points into the fetched bytes, which live as long as the
            array; "binary" copies once.
        timestamp_unit: "ms", as in Kafka, or "us".

    Raises:
        ConfigError: a name is unknown.
        MissingPackageError: pyarrow is not installed.
    """

    def __init__(
        self,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ):
        self.columns: tuple[str, ...] = COLUMNS if columns is None else tuple(columns)
        unknown = [name for name in self.columns if name not in COLUMN_BITS]
        if unknown:
            raise ConfigError(f"there is no column {unknown[0]!r}; columns are {', '.join(COLUMNS)}")
        if len(set(self.columns)) < len(self.columns):
            raise ConfigError(f"columns {self.columns} has a duplicate name")
        if layout not in LAYOUTS:
            raise ConfigError(f"layout is {layout!r}, it must be one of {LAYOUTS}")
        if timestamp_unit not in TIMESTAMP_UNITS:
            raise ConfigError(f"timestamp_unit is {timestamp_unit!r}, it must be one of {TIMESTAMP_UNITS}")
        self.views = layout == "binary_view"
        self.microseconds = timestamp_unit == "us"
        self.schema = schema(self.columns, layout, timestamp_unit)
        self._topics: pa.Array | None = None
        self._topic_names: tuple[str, ...] = ()

    def rows(self, rows_max: int, bytes_max: int, window_ms: int = 0) -> ArrowRows:
        """Returns an empty builder for at most this many rows and bytes of records, which counts rows by
        windows of this length; 0: it does not.
        """
        return ArrowRows(
            self.columns,
            views=self.views,
            microseconds=self.microseconds,
            rows_max=rows_max,
            bytes_max=bytes_max,
            window_ms=window_ms,
        )

    def batch(self, rows: ArrowRows, topics: Sequence[str]) -> pa.RecordBatch:
        """Returns the builder's rows as a batch and empties it. `topics`: names by topic number."""
        pa = pyarrow()
        count, buffers = rows.take()
        arrays = [self._array(name, count, buffers[name], topics) for name in self.columns]
        if not arrays:  # only the number of rows is requested
            return pa.record_batch(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, count: int, buffers: Any, topics: Sequence[str]) -> pa.Array:
        pa = pyarrow()
        kind = self.schema.field(name).type
        if name == "topic":
            indices = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(buffers)], 0)
            return pa.DictionaryArray.from_arrays(indices, self._dictionary(topics), safe=False)
        if name in ("key", "value"):
            return _binary(kind, count, buffers)
        if name == "headers":
            ends, total, keys, values = buffers
            pairs = [_binary(pa.string(), total, keys), _binary(pa.binary(), total, values)]
            entries = pa.Array.from_buffers(kind.value_type, total, [None], 0, children=pairs)
            return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends)], 0, children=[entries])
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(buffers)], 0)

    def _dictionary(self, topics: Sequence[str]) -> pa.Array:
        """Returns the dictionary of topic names; one array while the names do not change, so that batches
        share it.
        """
        if self._topics is None or self._topic_names != tuple(topics):
            self._topic_names = tuple(topics)
            self._topics = _strings(self._topic_names)
        return self._topics


def _strings(texts: Sequence[str]) -> pa.Array:
    """Builds the array that pyarrow.array() would, which imports pandas if installed and then takes a third
    of a second.
    """
    pa = pyarrow()
    data = [text.encode() for text in texts]
    ends = array.array("i", itertools.accumulate(map(len, data), initial=0))
    return pa.Array.from_buffers(
        pa.string(), len(data), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))], 0
    )


def _binary(kind: pa.DataType, count: int, parts: Any) -> pa.Array:
    pa = pyarrow()
    nulls, buffers = parts
    given = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, given, nulls)


@cache
def schema(
    columns: tuple[str, ...] = COLUMNS, layout: Layout = "binary", timestamp_unit: TimestampUnit = "ms"
) -> pa.Schema:
    """Returns the Arrow schema of records: topic as a dictionary of strings, timestamps in UTC."""
    pa = pyarrow()
    binary = pa.binary_view() if layout == "binary_view" else pa.binary()
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    fields = {
        "topic": pa.field("topic", pa.dictionary(pa.int32(), pa.string())),
        "partition": pa.field("partition", pa.int32()),
        "offset": pa.field("offset", pa.int64()),
        "timestamp": pa.field("timestamp", pa.timestamp(timestamp_unit, "UTC")),
        "timestamp_type": pa.field("timestamp_type", pa.int8()),
        "key": pa.field("key", binary),
        "value": pa.field("value", binary),
        "headers": pa.field("headers", pa.list_(header)),
    }
    return pa.schema([fields[name] for name in columns])
