"""Reads topics as tables, `bowstring.read` all at once, `bowstring.scan` batch by batch; writes tables by
`bowstring.write`.
"""

from __future__ import annotations

import html
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bowstring.clients.arguments import checked
from bowstring.clients.arrow.arrow_format import ArrowFormat, pyarrow
from bowstring.clients.arrow.typed_values import TypedColumns, ValueFormat, format_for, named_format
from bowstring.clients.choices import IsolationLevel, Layout, TimestampUnit
from bowstring.clients.config.security import environment_security
from bowstring.clients.consumer.range_reader import BoundedConsumer
from bowstring.clients.consumer.read_bounds import Bounds, ranges
from bowstring.clients.errors import ConfigError, MissingPackageError, NoBrokerError
from bowstring.clients.producer.arrow import IGNORED
from bowstring.clients.producer.batches import BatchesFuture
from bowstring.clients.producer.producer import Producer
from bowstring.clients.progress import Progress
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from bowstring.kernels.function import Kernel
    from bowstring.kernels.fused import Aggregate, Fused

DEFAULT_BOOTSTRAP = "localhost:9092"
MAX_BATCH_ROWS = 1 << 20
TOPIC_TIMEOUT_S = 2.0
SAMPLE_RECORDS = 1_000
SAMPLE_FETCH_BYTES = 128 << 10
SHOWN_ROWS = 10
SHOWN_CHARACTERS = 120
WRITE_ROWS = 100_000
WRITES_IN_FLIGHT = 8


class Records:
    """Records of a topic: a pyarrow.Table with conversions to other libraries.

    Every attribute of pyarrow.Table is available (`num_rows`, `column`, `filter`, ...); `to_arrow()` returns
    the table. DuckDB finds it by the name of the variable; Polars and pyarrow read it through
    `__arrow_c_stream__`.

    Args:
        table: what `to_arrow` returns.
    """

    def __init__(self, table: pa.Table):
        self._table = table

    def to_arrow(self) -> pa.Table:
        """The pyarrow.Table."""
        return self._table

    def to_polars(self) -> pl.DataFrame:
        """Returns a polars.DataFrame; with layout="binary_view" without copying keys and values.

        Raises:
            MissingPackageError: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise MissingPackageError("polars", "polars") from error
        return polars.DataFrame(self._table)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Returns a pandas.DataFrame; `options` are those of pyarrow.Table.to_pandas.

        Args:
            options: keywords of pyarrow.Table.to_pandas.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MissingPackageError("pandas", "pandas") from error
        return self._table.to_pandas(**options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._table.equals(other._table if isinstance(other, Records) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<bowstring.Records of {self._table.num_rows} rows>\n{self._table!r}"

    def _repr_html_(self) -> str:
        """What notebooks show: the first rows, with bytes as text where they are text."""
        rows = self._table.slice(0, SHOWN_ROWS).to_pylist()
        names = "".join(f"<th>{_html(name)}</th>" for name in self._table.column_names)
        lines = [f"<tr>{''.join(f'<td>{_html(value)}</td>' for value in row.values())}</tr>" for row in rows]
        more = self._table.num_rows - len(rows)
        end = f"<p>{more:,} more of {self._table.num_rows:,} rows</p>" if more else ""
        return f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(lines)}</tbody></table>{end}"


def _html(value: object) -> str:
    text = "" if value is None else str(value)
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.hex(" ")
    return html.escape(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")


class Scan:
    """A prepared bounded read: the consumer, the resolved ranges, and the columns."""

    def __init__(
        self,
        *,
        topic: str | Iterable[str],
        start: Bounds,
        end: Bounds,
        bootstrap_servers: str | Iterable[str] | None,
        formats: dict[str, ValueFormat | None],
        partitions: Iterable[int] | None,
        form: dict[str, Any],
        configs: dict[str, Any],
        fused: Fused | None = None,
        progress: bool | None = False,
    ):
        columns = form["columns"]
        form["columns"] = None if columns is None else tuple(columns)
        wanted = ArrowFormat(**form).schema
        topics = (topic,) if isinstance(topic, str) else tuple(topic)
        self._typed = TypedColumns(
            wanted, {name: format_for(each, topics, name) for name, each in formats.items()}
        )
        self.schema = self._typed.schema
        self._names = self._typed.columns_to_read
        if len(self._names) > len(wanted.names):
            form["columns"] = self._names
        self._fused = fused
        if fused is not None:
            kept = () if fused.aggregate else form["columns"]
            form["columns"] = None if kept is None else tuple({*kept, *fused.columns}) or ("offset",)
        self._form = form
        self._is_shown = progress
        bootstrap_servers, configs = _addressed(bootstrap_servers, configs)
        # Records at "earliest" or at a time may be deleted before they are read; then reading starts at the
        # first one left.
        policy: dict[str, Any] = {} if _has_offsets(start) else {"auto_offset_reset": "earliest"}
        self._consumer = BoundedConsumer(bootstrap_servers, {}, **policy, **configs)
        try:
            self._partitions = self._named(topics, partitions)
            self._ranges = ranges(self._consumer, self._partitions, start, end)
            self._consumer.restrict(self._ranges)
        except BaseException:
            self._consumer.close()
            raise

    def _partitions_of(self, topic: str) -> list[TopicPartition]:
        try:  # wait less for a missing topic than for a broker
            return self._consumer.partitions_for(topic, TOPIC_TIMEOUT_S)
        except NoBrokerError:
            return self._consumer.partitions_for(topic)

    def _named(self, topics: Iterable[str], numbers: Iterable[int] | None) -> list[TopicPartition]:
        there = [p for topic in topics for p in self._partitions_of(topic)]
        if numbers is None:
            return there
        wanted = set(numbers)
        missing = wanted - {p.partition for p in there}
        if missing:
            raise ConfigError(
                f"there are no partitions {sorted(missing)}; the topic has {[str(p) for p in there]}"
            )
        return [p for p in there if p.partition in wanted]

    def _fetched(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        total = sum(end - start for start, end in self._ranges.values())
        topics = ", ".join({partition.topic: None for partition in self._partitions})
        with self._consumer as consumer, Progress(f"read {topics}", total, self._is_shown) as progress:
            for batch in consumer.batches(MAX_BATCH_ROWS, **self._form):
                assert consumer.taken_from is not None
                yield consumer.taken_from, batch
                if progress.is_due:
                    progress.reach(self._read(consumer.positions()))

    def _read(self, positions: Mapping[TopicPartition, int]) -> int:
        return sum(positions.get(each, start) - start for each, (start, _) in self._ranges.items())

    def batches(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yields every batch with its partition, as they arrive; closes the connections at the end."""
        for partition, batch in self._fetched():
            left = batch if self._fused is None else self._fused.filter(batch).select(self._names)
            yield partition, self._typed.batch(left)

    def aggregated(self, fused: Fused) -> pa.Table:
        """Returns the result of kernels over all records."""
        return fused.finish(fused.partial(batch) for _, batch in self._fetched())

    def table(self) -> pa.Table:
        """Returns all records, in the order of topics, partitions and offsets."""
        found: dict[TopicPartition, list[pa.RecordBatch]] = {p: [] for p in self._partitions}
        for partition, batch in self.batches():
            found[partition].append(batch)
        ordered = [batch for batches in found.values() for batch in batches]
        return pyarrow().Table.from_batches(ordered, schema=self.schema)


def _addressed(
    bootstrap_servers: str | Iterable[str] | None, configs: dict[str, Any]
) -> tuple[str | Iterable[str], dict[str, Any]]:
    """Returns the servers and the settings of a client, from the environment where no servers are given."""
    if bootstrap_servers is not None:
        return bootstrap_servers, configs
    servers = os.environ.get("BOWSTRING_BOOTSTRAP_SERVERS", DEFAULT_BOOTSTRAP)
    return servers, {"security": environment_security() or None, **configs}


def _has_offsets(bounds: Bounds) -> bool:
    given = bounds.values() if hasattr(bounds, "values") else [bounds]
    return any(isinstance(bound, int) for bound in given)


Format: TypeAlias = "ValueFormat | Literal['json', 'text']"


def _formats(
    given: dict[str, Format | None], topic: str | Iterable[str], bounds: tuple[Bounds, Bounds],
    wanted: dict[str, Any], configs: Mapping[str, Any],
) -> dict[str, ValueFormat | None]:  # fmt: skip
    """Returns the formats; where "json" is given, infers the schema from the first records."""
    formats: dict[str, ValueFormat | None] = {}
    for name, form in given.items():
        if form == "text":
            formats[name] = named_format(form)
        elif isinstance(form, str):
            from bowstring.values.inferred_json import infer_json

            sampled = _sample(name, topic, bounds, wanted, configs)
            formats[name] = infer_json(sampled, topic if isinstance(topic, str) else ", ".join(topic))
        else:
            formats[name] = form
    return formats


def _sample(
    column: str, topic: str | Iterable[str], bounds: tuple[Bounds, Bounds],
    wanted: dict[str, Any], configs: Mapping[str, Any],
) -> list[bytes | None]:  # fmt: skip
    """Returns the first values of a read, as they arrive."""
    found: list[bytes | None] = []
    how: dict[str, Any] = {**wanted, **configs, "start": bounds[0], "end": bounds[1]}
    for name in ("fetch_message_max_bytes", "queued_max_messages_kbytes"):
        how.pop(name, None)
    how.update(max_partition_fetch_bytes=SAMPLE_FETCH_BYTES, prefetch_max_bytes=0)
    read = scan(topic, columns=[column], **how)
    try:
        for batch in read:
            found += batch.column(0).slice(0, SAMPLE_RECORDS - len(found)).to_pylist()
            if len(found) >= SAMPLE_RECORDS:
                break
    finally:
        read.close()
    return found


@checked
def read(
    topic: str | Iterable[str],
    start: Bounds = "earliest",
    end: Bounds = "latest",
    *,
    bootstrap_servers: str | Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    key: ValueFormat | Literal["json", "text"] | None = None,
    value: ValueFormat | Literal["json", "text"] | None = None,
    partitions: Iterable[int] | None = None,
    where: Kernel | None = None,
    aggregate: Mapping[str, Aggregate] | None = None,
    by: Mapping[str, Kernel | str] | None = None,
    progress: bool | None = None,
    **configs: Any,
) -> Records:
    """Reads the records of a topic from `start` up to `end` as a table.

    The ends of the partitions at the call bound the read. Rows are in the order of partitions and offsets.

    Args:
        topic: a topic, or several.
        start: "earliest", "latest", an offset (negative: that many before the end), a datetime (the first
            record at or after it; without a time zone it is local time), or a mapping from partition to one
            of these. Partitions that a mapping does not name are read completely.
        end: like `start`, exclusive. A bound beyond the end of a partition means its end.
        bootstrap_servers: `host:port,host:port`, or a list of them; None: $BOWSTRING_BOOTSTRAP_SERVERS, else
            localhost:9092, with settings of TLS and SASL such as $BOWSTRING_SASL_PASSWORD (sasl.password).
        columns: topic, partition, offset, timestamp, timestamp_type, key, value, headers; None for all.
        key, value: formats (bowstring.Json, Avro, Protobuf) that decode the column into a struct. A value
            that does not decode is null, with a message in a column `key_error` or `value_error`. "json"
            infers the schema from the first 1,000 records that arrive. "text" is bowstring.Text().
        partitions: only these.
        where: a kernel (`bowstring.kernel`) that runs inside the read; records for which it returns false are
            left out.
        aggregate, by: kernels aggregated inside the read, to a row for each group.
        progress: shows a bar on a terminal or in a notebook; None: only in reads that take seconds.
        configs: layout and timestamp_unit (see `Consumer.poll_arrow`), isolation_level ("read_committed"
            leaves out aborted and open transactions), and further settings of Consumer.

    Raises:
        MissingPackageError: pyarrow is not installed.
        ConfigError, KernelError: an argument is invalid, or a kernel does not compile.
        UnknownTopicError, NoBrokerError: the topic does not exist, or no broker can be reached.
        OffsetOutOfRangeError: `start` is an offset that is not in the log.
        CorruptBatchError: a batch fails its CRC or cannot be decoded.

    Examples:
        >>> flights = bowstring.read("flights", start=-1000, columns=["offset", "value"])
        >>> duckdb.sql("SELECT count(*) FROM flights").fetchall()
        [(1000,)]
    """
    form = {"columns": columns, "layout": "binary", "timestamp_unit": "ms"}
    form |= {name: configs.pop(name) for name in ("layout", "timestamp_unit") if name in configs}
    where_from: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "partitions": partitions}
    fused = _fused(where, aggregate, by)
    formats = _formats({"key": key, "value": value}, topic, (start, end), where_from, configs)
    at = {"topic": topic, "start": start, "end": end, "progress": progress, **where_from}
    found = Scan(formats=formats, fused=fused, form=form, configs=configs, **at)
    return Records(found.aggregated(fused) if fused is not None and fused.aggregate else found.table())


def _fused(
    where: Kernel | None,
    aggregate: Mapping[str, Aggregate] | None,
    by: Mapping[str, Kernel | str] | None,
) -> Fused | None:
    if where is None and not aggregate and not by:
        return None
    from bowstring.kernels.fused import Fused

    return Fused(where, aggregate, by)


@checked
def scan(
    topic: str | Iterable[str],
    start: Bounds = "earliest",
    end: Bounds = "latest",
    *,
    bootstrap_servers: str | Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    key: ValueFormat | None = None,
    value: ValueFormat | None = None,
    partitions: Iterable[int] | None = None,
    isolation_level: IsolationLevel = "read_uncommitted",
    layout: Layout = "binary",
    timestamp_unit: TimestampUnit = "ms",
    **configs: Any,
) -> pa.RecordBatchReader:
    """Reads like `read`, batch by batch: returns a pyarrow.RecordBatchReader that fetches on demand with
    bounded memory.

    Batches are returned as they arrive; each is of one partition, and those of a partition are in order.
    The call determines the end. Later errors are raised during reading.

    Args:
        topic, start, end, bootstrap_servers, columns, key, value, partitions, configs: as for `read`.
        isolation_level, layout, timestamp_unit: as for `Consumer.poll_arrow` and Consumer.

    Examples:
        >>> flights = bowstring.scan("flights", columns=["value"])
        >>> duckdb.sql("SELECT count(*) FROM flights").fetchall()
        [(1000,)]
    """
    form = {"columns": columns, "layout": layout, "timestamp_unit": timestamp_unit}
    formats = {"key": key, "value": value}
    configs["isolation_level"] = isolation_level
    found = Scan(
        topic=topic,
        start=start,
        end=end,
        bootstrap_servers=bootstrap_servers,
        formats=formats,
        partitions=partitions,
        form=form,
        configs=configs,
    )
    return pyarrow().RecordBatchReader.from_batches(found.schema, (batch for _, batch in found.batches()))


@checked
def write(
    topic: str,
    data: Any,
    *,
    bootstrap_servers: str | Iterable[str] | None = None,
    key: str | ValueFormat | None = None,
    value: str | ValueFormat | None = None,
    timestamp: str = "timestamp",
    partition: str = "partition",
    headers: str = "headers",
    progress: bool | None = None,
    **configs: Any,
) -> int:
    """Writes the rows of a table as records, and returns their number when all are acknowledged.

    What `read` returned can be written as it is. Rows go out in their order; an error after some of them says
    nothing about those before it.

    Args:
        topic: name of the topic.
        data: a table of pyarrow, Polars, pandas or DuckDB, a reader, or anything else with
            `__arrow_c_stream__` or `__arrow_c_array__`.
        bootstrap_servers: as for `read`.
        key, value, timestamp, partition, headers: columns and formats, as for `Producer.send_arrow`. The
            value "json", where no column has that name, makes JSON objects of the columns that no other part
            takes.
        progress: shows a bar on a terminal or in a notebook; None: only in writes that take seconds.
        configs: settings of Producer, such as compression="lz4".

    Raises:
        MissingPackageError: pyarrow is not installed.
        ConfigError: the data has columns that no part of a record takes, or types that these cannot have.
        ClientError: records could not be delivered.

    Examples:
        >>> table = pyarrow.table({"key": ["UA"], "value": ["on time"]})
        >>> bowstring.write("flights", data=table)
        1
    """
    roles: dict[str, Any] = {
        "key": key,
        "value": value,
        "timestamp": timestamp,
        "partition": partition,
        "headers": headers,
    }
    servers, configs = _addressed(bootstrap_servers, configs)
    with (
        Producer(servers, **configs) as producer,
        Progress(f"write {topic}", _rows_of(data), progress) as shown,
    ):
        return _write(producer, topic, data, roles, shown)


def _write(producer: Producer, topic: str, data: Any, roles: dict[str, Any], shown: Progress) -> int:
    written = 0
    waiting: deque[BatchesFuture] = deque()
    for rows in _pieces(data):
        if roles["value"] == "json":
            roles["value"] = _json_of(rows, roles)
        waiting.append(producer.send_arrow(topic, rows, **roles))
        while len(waiting) > WRITES_IN_FLIGHT:
            written += _acknowledged(waiting.popleft())
            shown.reach(written)
    while waiting:
        written += _acknowledged(waiting.popleft())
        shown.reach(written)
    return written


def _json_of(rows: Any, roles: dict[str, Any]) -> Any:
    """Returns the format for the columns that no other part takes; a column "json" is the value."""
    names = {name for name in roles.values() if isinstance(name, str)} | {*IGNORED, "key"}
    own = set() if isinstance(roles["key"], str | None) else set(roles["key"].schema.names)
    arrow = pyarrow()
    known = isinstance(rows, arrow.RecordBatch | arrow.Table)
    schema = rows.schema if known else arrow.RecordBatchReader.from_stream(rows).schema
    if "json" in schema.names:
        return "json"
    from bowstring.values.inferred_json import json_of_columns

    left = [field for field in schema if field.name not in names | own]
    return json_of_columns(arrow.schema(left))


def _rows_of(data: Any) -> int | None:
    """Returns how many rows there are, where that costs nothing: a relation of DuckDB would run its query."""
    if type(data).__module__.startswith("pandas."):
        return len(data)
    rows = getattr(data, "num_rows", getattr(data, "height", None))
    return rows if isinstance(rows, int) else None


def _acknowledged(future: BatchesFuture) -> int:
    future.result()
    return future.record_count


def _pieces(data: Any) -> Iterator[Any]:
    """Yields the rows of a table, at most WRITE_ROWS at a time; an empty table as it is, to be checked."""
    arrow = pyarrow()
    if hasattr(data, "__arrow_c_stream__"):
        batches: Iterable[pa.RecordBatch] = arrow.RecordBatchReader.from_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        batches = [arrow.record_batch(data)]
    else:
        raise ConfigError(f"a {type(data).__name__} is no Arrow data: it has no __arrow_c_stream__")
    is_empty = True
    for batch in batches:
        for begin in range(0, batch.num_rows, WRITE_ROWS):
            is_empty = False
            yield batch.slice(begin, WRITE_ROWS)
    if is_empty and not isinstance(data, arrow.RecordBatchReader):
        yield data
