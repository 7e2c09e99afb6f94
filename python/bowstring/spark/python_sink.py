"""Writes Arrow batches from Spark to topics, as the sink of the Python engine, with PySpark's data source
API.

Each task sends with its own idempotent producer and ends when all records are acknowledged. As with
Spark's Kafka sink, a record is written at least once: a repeated task sends again. With
`delivery=exactly-once` it sends in a transaction, which the driver commits (`coordination`).
"""

from __future__ import annotations

import logging
import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from bowstring.clients.config.security import client_security
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.producer.config import PRODUCER
from bowstring.clients.producer.count_reporter import Counted
from bowstring.spark.coordination import (
    Coordination,
    Task,
    Written,
    abort_batch,
    commit_batch,
    this_task,
)
from bowstring.spark.options import WriteOptions, write_options
from bowstring.spark.python_source import require_python_engine
from bowstring.spark.registry_format import written_format
from bowstring.spark.row_schema import HEADERS
from bowstring.spark.task_counts import TaskReports, taken, total
from bowstring.spark.task_names import CLIENT_ID, this_query
from bowstring.spark.worker_errors import one_sentence

if TYPE_CHECKING:
    import pyarrow

    from bowstring._native.client.window_counts import WindowCounts
    from bowstring.clients.producer.producer import Producer

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
# The producer limits memory; this limits the delay until a failure is noticed.
UNCHECKED_MAX = 64


class NullTopicError(ClientError):
    """A row has no topic, and the option does not name one."""

    def __init__(self) -> None:
        super().__init__("a row's topic is null: fill the column, or name one topic with the option `topic`")


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Returns the writer for `df.write`.

    Raises:
        ConfigError: an option or a column is invalid, or the mode is overwrite.
    """
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: write with .mode('append')")
    return BatchWriter(_checked(options, schema))


def stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
    """Returns the writer for `df.writeStream`: like Spark's Kafka sink, appends what changed. Spark itself
    refuses the mode update for sinks in Python.
    """
    return StreamWriter(_checked(options, schema))


def _checked(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    require_python_engine(options)
    if not options:
        raise ConfigError(
            "the write has no options. If this is an INSERT: Spark does not pass a table's options to a "
            "sink in Python. Write with df.write.format('bowstring').options(…).mode('append').save(), or "
            "start Spark with bowstring's jar (bowstring spark-jar)"
        )
    parsed = write_options(options)
    fields = {field.name: field.dataType for field in schema.fields}
    if parsed.topic is None and "topic" not in fields:
        raise ConfigError("no topic: set the option `topic`, or give each row a column `topic`")
    if "value" not in fields:
        raise ConfigError("there is no column `value`; create it, for example with to_json(struct(*))")
    for name, types in TYPES.items():
        if name in parsed.encoded and isinstance(fields.get(name), StructType):
            continue
        if name in fields and not any(_same(fields[name], each) for each in types):
            takes = " or ".join(each.simpleString() for each in types)
            raise ConfigError(f"column {name} is {fields[name].simpleString()}, it must be {takes}")
    reach(parsed)
    for column, given in parsed.encoded.items():
        if parsed.topic is not None and isinstance(fields.get(column), StructType):
            written_format(given, parsed.topic, column).prepare()
    return parsed


def reach(options: WriteOptions) -> None:
    """Checks that a broker answers, so that the write fails here and not in every task.

    Raises:
        NoBrokerError: none answered within kafka.max.block.ms.
    """
    timeout_ms = options.configs.get("max_block_ms", PRODUCER.defaults["max_block_ms"])
    security = client_security(options.configs.get("security"))
    client = NetworkClient("bowstring-spark", request_timeout_ms=max(1, timeout_ms), security=security)
    try:
        servers = parse_bootstrap(options.bootstrap_servers)
        ClusterMetadata(client, servers, allow_auto_create=False).refresh(timeout_ms / 1000)
    finally:
        client.close()


def _same(one: DataType, other: DataType) -> bool:
    return one.simpleString() == other.simpleString()


class _Tasks:
    """The tasks of both writers."""

    def __init__(self, options: WriteOptions):
        self.options = options
        self._job = uuid.uuid4().hex

    @abstractmethod
    def _task(self) -> Task:
        """Returns which task of which write this is."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Sends all rows; returns when they are acknowledged, and prepared if there is a transaction.

        Raises:
            ClientError: the error of the first record that was not delivered.
        """
        with one_sentence():
            return self._write_once(iterator) if self.options.exactly_once else self._write(iterator)

    def _write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        from bowstring.clients.producer.producer import Producer

        records = 0
        with Producer(self.options.bootstrap_servers, **self._configs()) as producer:
            counts = self._count(producer)
            sending = Sending(producer, self.options)
            for batch in iterator:
                sending.send(batch)
                records += batch.num_rows
            sending.finish()
        return Written(records, query=this_query(), counts=[] if counts is None else taken(counts))

    def _write_once(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """Sends in a transaction and leaves its end to the driver; sends nothing of a decided batch."""
        from bowstring.clients.producer.producer import Producer

        task = self._task()
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return Written(0, task)
        if task.batch is not None:
            with self._coordination(task.write) as coordination:
                decided = coordination.is_decided(task.batch)
            if decided:
                for _ in batches:  # Spark does not reuse a worker that leaves rows
                    pass
                return Written(0, task, decided=True)
        configs = self._configs() | {"transactional_id": task.transactional_id}
        records = 0
        with Producer(self.options.bootstrap_servers, **configs) as producer:
            counts = self._count(producer)
            producer.begin_transaction()
            sending = Sending(producer, self.options)
            batch: pyarrow.RecordBatch | None = first
            while batch is not None:
                sending.send(batch)
                records += batch.num_rows
                batch = next(batches, None)
            sending.finish()
            prepared = producer.prepare_transaction()
        counted = [] if counts is None else taken(counts)
        return Written(records, task, prepared, topic=min(sending.topics), query=task.write, counts=counted)

    def _count(self, producer: Producer) -> WindowCounts | None:
        """Makes a producer count what is acknowledged, if there is an audit."""
        if self.options.audit is None:
            return None
        from bowstring._native.client.window_counts import WindowCounts

        counts = WindowCounts(self.options.audit.window_ms, staging=self.options.exactly_once)
        producer.accumulator.counts = counts
        return counts

    def _report(self, messages: list[WriterCommitMessage | None], batch: int | None) -> None:
        """Reports what the tasks of a batch or job have counted."""
        audit = self.options.audit
        if audit is None:
            return
        written = [each for each in messages if isinstance(each, Written)]
        write = next((each.query for each in written if each.query is not None), self._job)
        configs = self._configs()
        who = Counted("producer", configs["client_id"])
        reports = TaskReports(audit, who, self.options.bootstrap_servers, configs.get("security"))
        counts = total(count for each in written for count in each.counts)
        reports.report(write if batch is None else f"{write}.{batch}", counts)
        reports.close()

    def _coordination(self, write: str) -> Coordination:
        return Coordination(self.options.bootstrap_servers, write, self.options.configs.get("security"))

    def _configs(self) -> dict[str, Any]:
        # Whole columns arrive at once, so batches may be as large as brokers accept.
        return {"client_id": CLIENT_ID, "batch_size": 1 << 19} | self.options.configs


class BatchWriter(_Tasks, DataSourceArrowWriter):
    """Writes a DataFrame to topics: at least once, or in transactions that are committed at its end."""

    def _task(self) -> Task:
        return this_task(self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the transactions, if there are some: otherwise all records are already in the topics."""
        if self.options.exactly_once:
            chosen = [
                each.prepared for each in messages if isinstance(each, Written) and each.prepared is not None
            ]
            with one_sentence(), self._coordination(self._job) as coordination:
                rest = coordination.leftovers(chosen, len(messages))
                coordination.commit(chosen, "the write")
                coordination.abort(rest)
        self._report(messages, None)
        log.info("the Python engine of bowstring wrote %d records", _total(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Aborts the transactions; without them, logs that records of successful tasks stay in the topics."""
        if self.options.exactly_once:
            if None in messages:
                with one_sentence(), self._coordination(self._job) as coordination:
                    abort_batch(coordination, None, messages)
            return
        log.warning(
            "a write failed after %d records; those stay in the topics, and repeating the write duplicates "
            "them",
            _total(messages),
        )


class StreamWriter(_Tasks, DataSourceStreamArrowWriter):
    """Writes a stream to topics, each micro-batch at least once, or exactly once."""

    def _task(self) -> Task:
        return this_task()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits the transactions, if there are some: otherwise all records are already in the topics."""
        written = [each for each in messages if isinstance(each, Written)]
        task = next((each.task for each in written if each.task is not None), None)
        if task is not None:
            with one_sentence(), self._coordination(task.write) as coordination:
                commit_batch(coordination, batchId, written)
        self._report(messages, batchId)
        log.info("the Python engine of bowstring wrote %d records of batch %d", _total(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Aborts the transactions of tasks, if one failed; without transactions, logs that Spark will write
        the batch again, which duplicates some records.
        """
        if self.options.exactly_once:
            task = next((each.task for each in messages if isinstance(each, Written)), None)
            # If all tasks succeeded, `commit` failed, and may have decided.
            if task is not None and None in messages:
                with one_sentence(), self._coordination(task.write) as coordination:
                    abort_batch(coordination, batchId, messages)
            return
        log.warning(
            "batch %d failed after %d records; Spark writes it again, which duplicates them",
            batchId,
            _total(messages),
        )


def _total(messages: list[WriterCommitMessage | None]) -> int:
    return sum(each.records for each in messages if isinstance(each, Written))


class Sending:
    """Sends batches through one producer.

    Args:
        options: of the sink.
    """

    def __init__(self, producer: Producer, options: WriteOptions):
        self._producer = producer
        self._topic = options.topic
        self._encoded_columns = options.encoded
        self.topics: set[str] = set()
        self._unchecked: deque[Any] = deque()

    def send(self, batch: pyarrow.RecordBatch) -> None:
        """Passes a batch to the producer; waits while its memory is full."""
        if not batch.num_rows:
            return
        rows = batch.select([name for name in SENT if name in batch.schema.names])
        if self._topic is not None:
            self._send(self._topic, rows)
        else:
            for topic, part in _by_topic(batch.column("topic"), rows):
                self._send(topic, part)

    def _send(self, topic: str, rows: pyarrow.RecordBatch) -> None:
        self.topics.add(topic)
        for column, given in self._encoded_columns.items():
            rows = _encoded(topic, rows, column, given)
        self._unchecked.append(self._producer.send_arrow(topic, rows))
        while len(self._unchecked) > UNCHECKED_MAX:
            self._unchecked.popleft().result()

    def finish(self) -> None:
        """Waits for every acknowledgement."""
        self._producer.flush()
        while self._unchecked:
            self._unchecked.popleft().result()


def _encoded(
    topic: str, rows: pyarrow.RecordBatch, column: str, given: Mapping[str, str]
) -> pyarrow.RecordBatch:
    """Returns the rows with structs in a column as bytes, and with their schema's header."""
    import pyarrow as pa

    if column not in rows.schema.names:
        return rows
    structs = rows.column(column)
    if not pa.types.is_struct(structs.type):
        return rows
    form = written_format(given, topic, column)
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns[column] = form.encode(structs)
    headers = form.add_headers(columns.get("headers"), columns[column])
    if headers is not None:
        columns["headers"] = headers
    return pa.RecordBatch.from_pydict(columns)


def _by_topic(topics: pyarrow.Array, rows: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    import pyarrow.compute as pc

    if topics.null_count:
        raise NullTopicError
    names = pc.unique(topics)
    for name in names:
        yield name.as_py(), rows if len(names) == 1 else rows.filter(pc.equal(topics, name))
