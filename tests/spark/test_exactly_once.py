"""The sink of the Python engine with `delivery=exactly-once`: who may die when, and what is then in the topic.

Most tests run the tasks and the driver of a query themselves, without a JVM: so they stop between any two steps.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

import bowstring
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.producer.prepared import PreparedTransaction
from bowstring.spark import exactly_once
from bowstring.spark.exactly_once import (
    CheckpointError,
    Coordination,
    DecidedLostError,
    Task,
    UndecidedError,
    Written,
    group_of,
)
from bowstring.spark.python_sink import batch_writer, stream_writer
from tests.spark.python_workers import in_time
from tests.support.waiting import HANG_S, wait_until

SCHEMA = StructType().add("value", StringType())


class Died(BaseException):
    """The process ended."""


class Context:
    """A TaskContext of Spark; `running` is the one of the task that runs."""

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


class Query:
    """The tasks and the driver of a streaming query."""

    def __init__(self, servers: str, topic: str, **options: str):
        self.servers, self.topic = servers, topic
        self.id = str(uuid.uuid4())
        self.options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": "exactly-once"}
        self.options |= {name.replace("_", "."): text for name, text in options.items()}

    def task(self, batch: int, values: Sequence[str], partition: int = 0, attempt: int = 0) -> Written:
        """Runs an attempt of a task in a worker."""
        Context.running = Context(self.id, batch, partition, attempt)
        rows = (pa.record_batch({"value": [each]}) for each in values)
        written = stream_writer(self.options, SCHEMA).write(self._failing_at_none(rows))
        return pickle.loads(pickle.dumps(written))

    @staticmethod
    def _failing_at_none(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in rows:
            if each["value"].null_count:
                raise OSError("a row cannot be read")
            yield each

    def commit(self, batch: int, *messages: Written | None) -> None:
        """Commits in the driver."""
        stream_writer(self.options, SCHEMA).commit(list(messages), batch)

    def abort(self, batch: int, *messages: Written | None) -> None:
        """Ends a failed batch in the driver."""
        stream_writer(self.options, SCHEMA).abort(list(messages), batch)

    def run(self, batch: int, *parts: Sequence[str]) -> None:
        """Runs a batch, of one task for each part."""
        self.commit(batch, *(self.task(batch, values, at) for at, values in enumerate(parts)))

    def has(self, *values: str) -> None:
        """Waits until readers of committed records see these values; nothing may be open."""

        def is_there() -> bool:
            found = committed(self.servers, self.topic)
            return found == sorted(values) and ended(self.servers, self.topic)

        wait_until(is_there, lambda: f"{committed(self.servers, self.topic)} instead of {sorted(values)}")


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


@pytest.fixture
def query(servers: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Query:
    """A new query that writes a new topic."""
    monkeypatch.setattr(exactly_once, "TaskContext", Context)
    return Query(servers, make_topic(servers, 2))


def test_batches_follow_each_other(query: Query) -> None:
    query.run(0, ["a", "b"], ["c"])
    query.run(1, [], [])
    query.run(2, ["d"], [], ["e"])
    query.has("a", "b", "c", "d", "e")


@pytest.mark.parametrize("parts", [[["b", "c"]], [["b"], ["c"], []], [["c"], [], ["b"]]])
def test_the_batch_of_a_driver_that_died_before_it_decided_runs_again(
    query: Query, parts: list[list[str]]
) -> None:
    query.run(0, ["a"])
    query.task(1, ["b"], 0)  # prepared, and nobody commits
    query.task(1, ["c"], 1)
    query.run(1, *parts, [])
    query.has("a", "b", "c")


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_decided_batch_is_committed_and_not_sent_again(query: Query, commits: int) -> None:
    query.run(0, ["a"])
    messages = [query.task(1, ["b"], 0), query.task(1, ["c"], 1)]
    with pytest.MonkeyPatch.context() as patch:
        complete = Coordination.commit

        def die(self: Coordination, chosen: Sequence[PreparedTransaction], what: str) -> None:
            complete(self, chosen[:commits], what)
            raise Died

        patch.setattr(Coordination, "commit", die)
        with pytest.raises(Died):
            query.commit(1, *messages)
    query.abort(1, *messages)  # what Spark calls after a failed commit
    again = [query.task(1, [value], at) for at, value in enumerate(("c", "b", "x"))]
    assert [each.records for each in again] == [0, 0, 0]
    query.commit(1, *again)
    query.has("a", "b", "c")
    query.run(2, ["d"])
    query.has("a", "b", "c", "d")


def test_a_committed_batch_that_spark_does_not_know_of(query: Query) -> None:
    query.run(0, ["a"], ["b"])
    query.run(0, ["b"], [], ["a"])
    query.run(0, [])
    query.has("a", "b")


def test_a_task_that_fails_is_repeated(query: Query) -> None:
    with pytest.raises(OSError):
        query.task(0, ["a", None], attempt=0)  # type: ignore[list-item]
    query.commit(0, query.task(0, ["a", "b"], attempt=1))
    query.has("a", "b")


def test_a_task_that_dies_is_repeated(query: Query) -> None:
    died = bowstring.Producer(query.servers, transactional_id=Task(query.id, 0, 0, 0).transactional_id)
    died.begin_transaction()
    died.send(query.topic, b"a").result(HANG_S)
    query.commit(0, query.task(0, ["a", "b"], attempt=1))
    query.has("a", "b")
    with pytest.raises(ClientError):
        died.commit_transaction()
    died.close()


@pytest.mark.parametrize("chosen", [0, 1])
def test_of_two_attempts_the_one_that_spark_chose_counts(query: Query, chosen: int) -> None:
    attempts = [query.task(0, ["a"], attempt=0), query.task(0, ["a"], attempt=1)]
    query.commit(0, attempts[chosen], query.task(0, ["b"], partition=1))
    query.has("a", "b")


def test_a_zombie_prepares_at_most(query: Query) -> None:
    query.run(0, ["a"])
    Context.running = Context(query.id, 1, 0, 0)
    reached: list[Written] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["b"]})
        query.run(1, ["b"])  # meanwhile: another driver, another run
        query.has("a", "b")
        yield pa.record_batch({"value": ["late"]})

    with pytest.raises(ClientError):
        reached.append(stream_writer(query.options, SCHEMA).write(rows()))
    # One that begins after the decision sends nothing; one that looked just before it is swept away.
    assert query.task(1, ["b"]).prepared is None
    with bowstring.Producer(
        query.servers, transactional_id=Task(query.id, 1, 1, 1).transactional_id
    ) as producer:
        producer.begin_transaction()
        producer.send(query.topic, b"late", partition=0)
        producer.prepare_transaction()
    query.run(2, ["c"], ["d"])
    query.has("a", "b", "c", "d")


def test_a_failed_batch_is_aborted_at_once(query: Query) -> None:
    prepared = query.task(0, ["a"], partition=0)
    query.task(0, ["b"], partition=1)
    query.abort(0, prepared, None)
    query.has()
    query.run(0, ["a"], ["b"])
    query.has("a", "b")


def test_what_was_aborted_too_early_is_told(query: Query) -> None:
    written = query.task(0, ["a"])
    assert written.prepared is not None
    written.prepared.complete(query.servers, commit=False)
    with pytest.raises(UndecidedError, match="Start the query again"):
        query.commit(0, written)
    written, other = query.task(0, ["a"], 0), query.task(0, ["b"], 1)
    assert written.prepared is not None and other.prepared is not None
    with Coordination(query.servers, query.id) as coordination:
        coordination.decide(0, query.topic, [written.prepared, other.prepared])
    written.prepared.complete(query.servers, commit=False)
    for _ in range(2):
        with pytest.raises(DecidedLostError, match=f"1 of 2 .*delete the group '{group_of(query.id)}'"):
            query.commit(0, query.task(0, ["a"], 0))
    query.has("b")


def test_a_checkpoint_that_is_older_than_the_topic_is_told(query: Query) -> None:
    query.run(0, ["a"])
    query.run(1, ["b"])
    with pytest.raises(CheckpointError, match="the checkpoint is at batch 0, but batch 1"):
        query.task(0, ["a"])


def test_metadata_of_others_is_told(query: Query) -> None:
    with bowstring.Admin(query.servers) as admin:
        admin.alter_offsets(group_of(query.id), {bowstring.TopicPartition(query.topic, 0): 1})
    with pytest.raises(CheckpointError, match="has other metadata"):
        query.task(0, ["a"])


def test_more_tasks_than_a_decision_can_name_are_told(query: Query) -> None:
    many = [
        PreparedTransaction(
            Task(query.id, 0, number, 0).transactional_id, number * 7919 % 10_007, number % 97
        )
        for number in range(2000)
    ]
    with Coordination(query.servers, query.id) as coordination:
        coordination.decide(0, query.topic, many[:300])
        assert coordination.decision() == (0, many[:300])
        with pytest.raises(ClientError, match="write with fewer tasks"):
            coordination.decide(1, query.topic, many)
        assert coordination.is_decided(0) and not coordination.is_decided(1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delivery": "twice"}, "at-least-once or exactly-once"),
        ({"kafka.acks": "1"}, r"option kafka\.acks contradicts"),
        ({"kafka.enable.idempotence": "false"}, r"option kafka\.enable\.idempotence contradicts"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled contradicts"),
    ],
)
def test_options_that_contradict(broker: bowstring.Broker, options: dict[str, str], says: str) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "delivery": "exactly-once"}
    with pytest.raises(ConfigError, match=says):
        batch_writer(given | options, SCHEMA, False)


def test_spark_runs_a_batch_again(
    python_spark: Any, broker: bowstring.Broker, make_topic: Any, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    source, target = make_topic(servers, 3), make_topic(servers, 2)
    rows = (
        python_spark.readStream.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"})
        .options(**{"kafka.isolation.level": "read_committed"})
        .load()
    )
    stream = (
        rows.selectExpr("cast(value AS string) value")
        .writeStream.format("bowstring")
        .options(**{"kafka.bootstrap.servers": servers, "topic": target, "delivery": "exactly-once"})
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )
    expected: list[str] = []
    with bowstring.Producer(servers, transactional_id=f"{source}-filling") as producer:
        for number in range(2):
            with producer.transaction():
                for partition in range(3):
                    producer.send(source, b"%d of %d" % (partition, number), partition=partition)
                    expected.append(f"{partition} of {number}")
            producer.begin_transaction()
            producer.send(source, b"aborted", partition=0)
            producer.flush()
            producer.abort_transaction()
            assert in_time(lambda: stream.start().awaitTermination(HANG_S))
            wait_until(lambda: committed(servers, target) == sorted(expected))
    last = max(tmp_path.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)
    assert in_time(lambda: stream.start().awaitTermination(HANG_S))
    assert last.exists()
    assert committed(servers, target) == sorted(expected)


def test_a_batch_job_is_committed_whole_or_not_at_all(
    python_spark: Any, broker: bowstring.Broker, make_topic: Any
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 2)

    def write(select: str) -> None:
        frame = python_spark.range(0, 100, 1, 3).selectExpr(select)
        options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": "exactly-once"}
        frame.write.format("bowstring").options(**options).mode("append").save()

    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        write("if(id < 99, cast(id as string), raise_error('no more')) value")
    wait_until(lambda: ended(servers, topic))
    assert committed(servers, topic) == []
    write("cast(id as string) value")
    wait_until(lambda: committed(servers, topic) == sorted(map(str, range(100))))


def test_the_columnar_engine_refuses(spark: Any, broker: bowstring.Broker) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "delivery": "exactly-once"}
    writer = spark.sql("SELECT 'v' value").write.format("bowstring").options(**options).mode("append")
    with pytest.raises(Exception, match=r'add \.option\("engine", "python"\)'):
        writer.save()
    with pytest.raises(Exception, match="it must be at-least-once or exactly-once"):
        writer.option("delivery", "twice").save()
