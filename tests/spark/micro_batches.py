"""Runs the tasks and the driver of a streaming query with `delivery=exactly-once` one by one, for each engine.

So a test stops between any two steps, without a query of Spark.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructType

import bowstring
from bowstring.clients.errors import ClientError
from bowstring.clients.producer.prepared import PreparedTransaction
from bowstring.spark.coordination import Coordination, Decision, Written
from bowstring.spark.python_sink import stream_writer
from tests.support.waiting import wait_until

SCHEMA = StructType().add("value", StringType())


class Died(BaseException):
    """The process ended."""


class Context:
    """A TaskContext of Spark for the Python engine; `running` is the one of the task that runs."""

    running: Context

    def __init__(self, query: str, batch: int, partition: int, attempt: int):
        self._task = (partition, attempt)
        self._local = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}

    @classmethod
    def get(cls) -> Context:
        return cls.running

    def partitionId(self) -> int:
        return self._task[0]

    def attemptNumber(self) -> int:
        return self._task[1]

    def getLocalProperty(self, name: str) -> str | None:
        return self._local.get(name)


class Report(NamedTuple):
    """What a task reports to the driver: `message` is its engine's."""

    records: int
    prepared: PreparedTransaction | None
    message: Any


class Query:
    """The tasks and the driver of a streaming query.

    Attributes:
        error: what its steps raise.
    """

    error: type[Exception] | tuple[type[Exception], ...]

    def __init__(self, servers: str, topic: str, query: str | None = None):
        self.servers, self.topic = servers, topic
        self.id = query or str(uuid.uuid4())
        self.options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": "exactly-once"}

    def task(self, batch: int, values: Iterable[str | None], partition: int = 0, attempt: int = 0) -> Report:
        """Runs an attempt of a task; its source fails at None."""
        raise NotImplementedError

    def commit(self, batch: int, *reports: Report | None) -> None:
        """Commits in the driver."""
        raise NotImplementedError

    def abort(self, batch: int, *reports: Report | None) -> None:
        """Ends a failed batch in the driver."""
        raise NotImplementedError

    def decide(self, batch: int, transactions: Sequence[PreparedTransaction], commits: int = 0) -> None:
        """Stores a decision, and makes some of the commits."""
        raise NotImplementedError

    def decision(self) -> Decision | None:
        """Returns the last decision."""
        raise NotImplementedError

    def run(self, batch: int, *parts: Sequence[str]) -> None:
        """Runs a batch, of one task for each part."""
        self.commit(batch, *(self.task(batch, values, at) for at, values in enumerate(parts)))

    def has(self, *values: str) -> None:
        """Waits until readers of committed records see these values; nothing may be open."""

        def is_there() -> bool:
            found = committed(self.servers, self.topic)
            return found == sorted(values) and ended(self.servers, self.topic)

        wait_until(is_there, lambda: f"{committed(self.servers, self.topic)} instead of {sorted(values)}")


def _failing_at_none(values: Iterable[str | None]) -> Iterator[str]:
    for each in values:
        if each is None:
            raise OSError("a row cannot be read")
        yield each


class PythonQuery(Query):
    """A query of the Python engine, in this process."""

    error = ClientError

    def task(self, batch: int, values: Iterable[str | None], partition: int = 0, attempt: int = 0) -> Report:
        Context.running = Context(self.id, batch, partition, attempt)
        rows = (pa.record_batch({"value": [each]}) for each in _failing_at_none(values))
        written = stream_writer(self.options, SCHEMA).write(rows)
        written = pickle.loads(pickle.dumps(written))
        assert isinstance(written, Written)
        return Report(written.records, written.prepared, written)

    def commit(self, batch: int, *reports: Report | None) -> None:
        messages = [None if each is None else each.message for each in reports]
        stream_writer(self.options, SCHEMA).commit(messages, batch)

    def abort(self, batch: int, *reports: Report | None) -> None:
        messages = [None if each is None else each.message for each in reports]
        stream_writer(self.options, SCHEMA).abort(messages, batch)

    def decide(self, batch: int, transactions: Sequence[PreparedTransaction], commits: int = 0) -> None:
        with Coordination(self.servers, self.id) as coordination:
            coordination.decide(batch, self.topic, transactions)
            coordination.commit(transactions[:commits], "a part")

    def decision(self) -> Decision | None:
        with Coordination(self.servers, self.id) as coordination:
            return coordination.decision()


class ColumnarQuery(Query):
    """A query of the columnar engine, in the JVM of a session."""

    error = (Py4JJavaError, PySparkException)

    def __init__(self, spark: Any, servers: str, topic: str, query: str | None = None):
        super().__init__(servers, topic, query)
        self._gateway, self._jvm = spark.sparkContext._gateway, spark._jvm
        nothing = self._jvm.java.util.Optional.empty()
        self._map = self._jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(self.options)
        schema = spark._jsparkSession.parseDataType(SCHEMA.json())
        of_spark = self._jvm.org.apache.spark.sql.connector.write
        info = of_spark.LogicalWriteInfoImpl(self.id, schema, self._map, nothing, nothing)
        self._write = self._jvm.bowstring.spark.write.BowstringWriteBuilder(info).build()

    def task(self, batch: int, values: Iterable[str | None], partition: int = 0, attempt: int = 0) -> Report:
        factory = self._write.createStreamingWriterFactory(None)
        contexts = getattr(getattr(self._jvm.org.apache.spark, "TaskContext$"), "MODULE$")
        contexts.setTaskContext(self._context(partition, attempt))
        try:
            writer = factory.createWriter(partition, 0, batch)
        finally:
            contexts.unset()
        try:
            for value in _failing_at_none(values):
                row = self._array(self._jvm.java.lang.Object, [self._text(value)])
                writer.write(self._jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(row))
            written = writer.commit()
        except BaseException:
            writer.abort()
            raise
        finally:
            writer.close()
        utils = self._jvm.org.apache.spark.util.Utils
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        written = utils.deserialize(utils.serialize(written), loader)
        prepared = written.prepared()
        return Report(written.records(), None if prepared is None else _ours(prepared), written)

    def _context(self, partition: int, attempt: int) -> Any:
        made = self._jvm.org.apache.spark.TaskContextImpl
        metrics, resources = (getattr(made, f"$lessinit$greater$default${each}")() for each in (10, 12))
        properties = self._jvm.java.util.Properties()
        return made(0, 0, partition, 0, attempt, 1, None, properties, None, metrics, 1, resources)

    def _text(self, value: str) -> Any:
        return self._jvm.org.apache.spark.unsafe.types.UTF8String.fromString(value)

    def _array(self, kind: Any, items: Sequence[Any]) -> Any:
        made = self._gateway.new_array(kind, len(items))
        for at, each in enumerate(items):
            made[at] = each
        return made

    def _messages(self, reports: Sequence[Report | None]) -> Any:
        kind = self._jvm.org.apache.spark.sql.connector.write.WriterCommitMessage
        return self._array(kind, [None if each is None else each.message for each in reports])

    def commit(self, batch: int, *reports: Report | None) -> None:
        self._write.commit(batch, self._messages(reports))

    def abort(self, batch: int, *reports: Report | None) -> None:
        self._write.abort(batch, self._messages(reports))

    def _coordination(self) -> Any:
        options = self._jvm.bowstring.spark.wire.ClientOptions.of(self._map)
        return self._jvm.bowstring.spark.write.once.Coordination(options, self.id)

    def decide(self, batch: int, transactions: Sequence[PreparedTransaction], commits: int = 0) -> None:
        theirs = self._jvm.java.util.ArrayList()
        for each in transactions:
            theirs.add(self._jvm.bowstring.spark.wire.OpenTransaction(*each))
        coordination = self._coordination()
        coordination.decide(batch, self.topic, theirs)
        coordination.commit(theirs.subList(0, commits), "a part")

    def decision(self) -> Decision | None:
        found = self._coordination().decision()
        return (
            None if found is None else Decision(found.batch(), [_ours(each) for each in found.transactions()])
        )


def _ours(transaction: Any) -> PreparedTransaction:
    return PreparedTransaction(transaction.transactionalId(), transaction.producerId(), transaction.epoch())


def make_query(
    engine: str, request: pytest.FixtureRequest, servers: str, topic: str, query: str | None = None
) -> Query:
    """Returns a query of an engine; the columnar one's needs the JVM of the fixture `spark`."""
    if engine == "python":
        return PythonQuery(servers, topic, query)
    return ColumnarQuery(request.getfixturevalue("spark"), servers, topic, query)


def committed(servers: str, topic: str) -> list[str]:
    """Returns what readers of committed records see."""
    table = bowstring.read(topic, bootstrap_servers=servers, isolation_level="read_committed")
    return sorted(value.decode() for value in table["value"].to_pylist())


def ended(servers: str, topic: str) -> bool:
    """Returns whether no transaction is open in the topic."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        with bowstring.Consumer(servers, isolation_level=isolation) as consumer:
            ends.append(consumer.end_offsets(consumer.partitions_for(topic)))
    return ends[0] == ends[1]
