"""The sink of the Python engine: Arrow batches from Spark into topics, through PySpark's data source API.

Each task sends what it gets with an idempotent producer of its own and ends when all of it is acknowledged.
As with Spark's Kafka sink a record is written at least once: a task that Spark runs again sends again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.spark.options import WriteOptions, write_options
from bowstring.spark.python_source import require_python_engine
from bowstring.spark.row_schema import HEADERS

if TYPE_CHECKING:
    import pyarrow

    from bowstring.clients.producer import Producer

log = logging.getLogger("bowstring.spark")

TEXT_OR_BYTES = (StringType(), BinaryType())
TYPES: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": TEXT_OR_BYTES,
    "value": TEXT_OR_BYTES,
    "headers": (HEADERS,),
    "partition": (IntegerType(),),
}
SENT = ("key", "value", "headers", "partition")
# The producer bounds memory; this bounds how late a failure is noticed.
UNCHECKED_MAX = 64


class NullTopicError(ClientError):
    """A row names no topic, and neither does the option."""

    def __init__(self) -> None:
        super().__init__("a row's topic is null: fill the column, or name one topic by the option `topic`")


@dataclass
class Written(WriterCommitMessage):
    """What a task has sent."""

    records: int


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """For `df.write`.

    Raises:
        ConfigError: an option or a column cannot be used, or the mode is overwrite.
    """
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: write with .mode('append')")
    return BatchWriter(_checked(options, schema))


def stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
    """For `df.writeStream`, in every output mode: what changed is appended, as Spark's Kafka sink does."""
    return StreamWriter(_checked(options, schema))


def _checked(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    require_python_engine(options)
    parsed = write_options(options)
    fields = {field.name: field.dataType for field in schema.fields}
    if parsed.topic is None and "topic" not in fields:
        raise ConfigError("no topic: set the option `topic`, or give each row a column `topic`")
    if "value" not in fields:
        raise ConfigError("there is no column `value`; make it with to_json(struct(*)) or alike")
    for name, types in TYPES.items():
        if name in fields and not any(_same(fields[name], each) for each in types):
            takes = " or ".join(each.simpleString() for each in types)
            raise ConfigError(f"column {name} is {fields[name].simpleString()}, it must be {takes}")
    return parsed


def _same(one: DataType, other: DataType) -> bool:
    return one.simpleString() == other.simpleString()


class _Tasks:
    """What both writers' tasks do."""

    def __init__(self, options: WriteOptions):
        self.options = options

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Sends all rows; returns when they are acknowledged.

        Raises:
            ClientError: of the first record that was not.
        """
        from bowstring.clients.producer import Producer

        records = 0
        with Producer(self.options.bootstrap_servers, **self._configs()) as producer:
            sending = Sending(producer, self.options.topic)
            for batch in iterator:
                sending.send(batch)
                records += batch.num_rows
            sending.finish()
        return Written(records)

    def _configs(self) -> dict[str, Any]:
        # Whole columns come at once: there is no point in batches smaller than brokers take them.
        return {"client_id": "bowstring-spark", "batch_size": 1 << 19} | self.options.configs


class BatchWriter(_Tasks, DataSourceArrowWriter):
    """A DataFrame into topics."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Everything is in the topics already."""
        log.info("the Python engine of bowstring wrote %d records", _total(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What some tasks sent stays in the topics: they have no transaction around them."""
        log.warning("a write failed after %d records; those stay in the topics", _total(messages))


class StreamWriter(_Tasks, DataSourceStreamArrowWriter):
    """A stream into topics, each micro-batch at least once."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Everything is in the topics already."""
        log.info("the Python engine of bowstring wrote %d records of batch %d", _total(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Spark will write the batch again, so that some of its records are there twice."""
        log.warning("batch %d failed after %d records; it will be written again", batchId, _total(messages))


def _total(messages: list[WriterCommitMessage | None]) -> int:
    return sum(each.records for each in messages if isinstance(each, Written))


class Sending:
    """Batches on their way through one producer.

    Args:
        topic: of all rows; None when each names its own.
    """

    def __init__(self, producer: Producer, topic: str | None):
        self._producer = producer
        self._topic = topic
        self._unchecked: deque[Any] = deque()

    def send(self, batch: pyarrow.RecordBatch) -> None:
        """Hands a batch to the producer; waits when its memory is full."""
        if not batch.num_rows:
            return
        rows = batch.select([name for name in SENT if name in batch.schema.names])
        if self._topic is not None:
            self._send(self._topic, rows)
        else:
            for topic, part in _by_topic(batch.column("topic"), rows):
                self._send(topic, part)

    def _send(self, topic: str, rows: pyarrow.RecordBatch) -> None:
        self._unchecked.append(self._producer.send_arrow(topic, rows))
        while len(self._unchecked) > UNCHECKED_MAX:
            self._unchecked.popleft().result()

    def finish(self) -> None:
        """Waits for every acknowledgement."""
        self._producer.flush()
        while self._unchecked:
            self._unchecked.popleft().result()


def _by_topic(topics: pyarrow.Array, rows: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    import pyarrow.compute as pc

    if topics.null_count:
        raise NullTopicError
    names = pc.unique(topics)
    for name in names:
        yield name.as_py(), rows if len(names) == 1 else rows.filter(pc.equal(topics, name))
