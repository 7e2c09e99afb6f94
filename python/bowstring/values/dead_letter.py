"""Sends values that do not decode to a dead-letter topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from bowstring.clients.records import Record

_PARTS = ("topic", "partition", "offset", "key", "value", "headers")
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


class ArrowProducer(Protocol):
    """The methods of :class:`bowstring.Producer` that are needed here."""

    def send(self, topic: str, value: Any, key: Any, *, headers: Any, timestamp: int) -> Any:
        """Sends one record."""

    def send_arrow(self, topic: str, data: pa.RecordBatch, /) -> object:
        """Sends the rows as records."""


@dataclass(frozen=True)
class DeadLetter:
    """Sends values that do not decode to a topic, with unchanged key and value, and with headers that
    describe them.

    Headers: the record's own, then `__error` (the reason), `__topic`, `__partition` and `__offset` (the
    record's position, as text). Columns that the read leaves out are missing there. Records are sent
    before the batch is returned; `producer.flush()` waits for them.

    Args:
        topic: the dead-letter topic.
        producer: an open Producer; it is not closed here.

    Examples:
        >>> bad = DeadLetter("orders.bad", producer)
        >>> orders = bowstring.Json(schema, on_error=bad)
    """

    topic: str
    producer: ArrowProducer

    def send(self, batch: pa.RecordBatch, errors: pa.StringArray) -> int:
        """Sends the records that have an error, if the batch has the columns key, value, headers,
        topic, partition and offset.

        Args:
            batch: records with the columns that `poll_arrow` returns.
            errors: reason of each row that does not decode; null for the others.

        Returns:
            how many were sent.

        Raises:
            ClientError: as `Producer.send_arrow` raises it.
        """
        bad = errors.is_valid()
        count = int(bad.sum().as_py() or 0)
        if not count:
            return 0
        records = _plain(batch).filter(bad)
        names = records.schema.names
        known = {"__error": errors.filter(bad)}
        known |= {f"__{name}": records.column(name) for name in _PARTS[:3] if name in names}
        columns = {name: records.column(name) for name in _PARTS[3:5] if name in names}
        columns["headers"] = _with_headers(records, known)
        self.producer.send_arrow(self.topic, pa.RecordBatch.from_pydict(columns))
        return count

    def send_record(self, record: Record, reason: str) -> Any:
        """Sends one record whose key or value does not decode; returns the future of its position.

        Args:
            record: it, with the bytes of key and value.
            reason: why it does not decode.

        Raises:
            ClientError: as `Producer.send` raises it.
        """
        headers = _with_descriptions(record, reason)
        return self.producer.send(
            self.topic, record.value, record.key, headers=headers, timestamp=record.timestamp
        )


def _with_descriptions(record: Record, reason: str) -> list[tuple[str, bytes | None]]:
    known = {
        "__error": reason,
        "__topic": record.topic,
        "__partition": str(record.partition),
        "__offset": str(record.offset),
    }
    return [*record.headers, *((name, text.encode()) for name, text in known.items())]


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch without views; Arrow's take does not support some of them."""
    columns = {name: batch.column(name) for name in _PARTS if name in batch.schema.names}
    types = {"key": pa.binary(), "value": pa.binary(), "headers": pa.list_(_HEADER)}
    return pa.RecordBatch.from_pydict(
        {name: column.cast(types.get(name, column.type)) for name, column in columns.items()}
    )


def _with_headers(records: pa.RecordBatch, known: dict[str, pa.Array]) -> pa.ListArray:
    """Returns the records' own headers, if they were read, followed by the descriptive ones."""
    count = len(records)
    each = pa.array(range(count), pa.int64())
    counts: Any = pa.repeat(pa.scalar(len(known)), count)
    parts, rows = [], []
    if "headers" in records.schema.names:
        own = records.column("headers")
        parts.append(own.flatten())
        rows.append(pc.list_parent_indices(own).cast(pa.int64()))
        counts = pc.add(counts, pc.list_value_length(own).fill_null(0))
    for name, column in known.items():
        text = column.cast(pa.string()).cast(pa.binary())
        parts.append(pa.StructArray.from_arrays([pa.repeat(name, count), text], fields=list(_HEADER)))
        rows.append(each)
    # The sort is stable, so a record's headers stay in order.
    headers = pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(rows)))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, headers)
