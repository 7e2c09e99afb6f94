"""`Producer.send_arrow`: tables of any library that speaks Arrow's C data interface, encoded off the GIL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bowstring._native.client.send_arrow import ArrowInputError, ArrowRecords, ArrowStreamError
from bowstring.clients.errors import ClientError, ConfigError, MissingPackageError
from bowstring.clients.producer.batches import BatchesFuture
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring._native.client.producer_batch import Batch
    from bowstring._native.client.record_sender import RecordSender

# Columns of what consumers hand out that say where a record was, not what it is.
IGNORED = ("topic", "offset", "timestamp_type")


def send_arrow(
    sender: RecordSender,
    find_topic: Callable[[str], None],
    topic: str,
    data: Any,
    roles: dict[str, Any],
) -> BatchesFuture:
    """Encodes and queues all rows of `data`; `roles` has column names or formats. See Producer.send_arrow.

    Args:
        find_topic: Waits until the topic's partitions are known.
    """
    sent: list[Batch] = []
    try:
        rows = open_rows(data, roles)
        while rows.next_array():
            _send_array(sender, find_topic, topic, rows, sent)
    except (ArrowInputError, ArrowStreamError) as error:
        count = sum(batch.record_count for batch in sent)
        told = f" ({count} records before it were sent)" if count else ""
        kind = ConfigError if isinstance(error, ArrowInputError) else ClientError
        raise kind(f"{error}{told}") from None
    return BatchesFuture(sent)


def _send_array(
    sender: RecordSender,
    find_topic: Callable[[str], None],
    topic: str,
    rows: ArrowRecords,
    sent: list[Batch],
) -> None:
    accumulator = sender.accumulator
    while True:
        find_topic(topic)
        if not rows.next_slice(accumulator, topic):
            return
        for partition, begin, end in rows.spans():
            rows.send_span(sender, TopicPartition(topic, partition), begin, end, sent)


def open_rows(data: Any, roles: dict[str, Any]) -> ArrowRecords:
    """The rows of `data`, with typed columns encoded by their formats.

    Raises:
        ArrowInputError: a column is unknown, or of a type that its role does not take.
        ConfigError: formats and columns do not fit together.
    """
    formats = {
        role: given for role, given in roles.items() if hasattr(given, "encode") and not _is_name(given)
    }
    names = {role: given for role, given in roles.items() if role not in formats}
    for role, name in names.items():
        if not _is_name(name):
            raise ConfigError(
                f"{role} is {name!r}: give the name of a column"
                + (" or a format such as bowstring.Json(schema)" if role in ("key", "value") else "")
            )
    if len(set(names.values())) < len(names):
        raise ConfigError("two parts of a record have the same column: give each its own")
    if formats:
        data = _encoded(data, names, formats)
        names = {**names, **{role: role for role in formats}}
    return ArrowRecords(data, names, tuple(name for name in IGNORED if name not in names.values()))


def _is_name(given: Any) -> bool:
    return isinstance(given, str)


def _encoded(data: Any, names: dict[str, str], formats: dict[str, Any]) -> pa.RecordBatchReader:
    """A reader of the same rows whose typed columns have become `key` and `value`, batch by batch."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingPackageError("pyarrow", "arrow") from None
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    else:
        raise ConfigError(f"a {type(data).__name__} is no Arrow data: it has no __arrow_c_stream__")
    headers = names["headers"]
    kept = [name for name in names.values() if name in reader.schema.names]
    typed = [name for name in reader.schema.names if name not in kept and name not in IGNORED]
    by_role: dict[str, list[str]] = {}
    schemas = {role: getattr(form, "write_schema", None) or form.schema for role, form in formats.items()}
    if "key" in formats:
        own = set(schemas["key"].names)
        by_role["key"] = [name for name in typed if name in own]
    if "value" in formats:
        by_role["value"] = [name for name in typed if name not in by_role.get("key", ())]
    for role, columns in by_role.items():
        if not columns:
            raise ConfigError(f"there are no columns for the format given as {role}: {reader.schema.names}")
        extra = [name for name in columns if name not in schemas[role].names]
        if extra:
            raise ConfigError(f"column {extra[0]!r} is not in the schema of the format given as {role}")
        if role in kept:
            raise ConfigError(f"a column is named {role!r} and there is a format for it: rename the column")

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = {name: batch.column(name) for name in kept}
            for role, columns in by_role.items():
                arrays[role] = formats[role].encode(batch.select(columns))
            for role in by_role:
                if hasattr(formats[role], "add_headers"):
                    made = formats[role].add_headers(arrays.get(headers), arrays[role])
                    arrays |= {} if made is None else {headers: made}
            yield pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    made = batches()
    first = next(made, None)
    if first is None:
        fields = [reader.schema.field(name) for name in kept]
        schema = pa.schema([*fields, *(pa.field(role, pa.binary()) for role in by_role)])
        return pa.RecordBatchReader.from_batches(schema, [])
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], made))
