"""The sinks of both engines with `delivery=exactly-once`: who may die when, and what is then in the topic.

Most tests run the tasks and the driver of a query themselves: so they stop between any two steps.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.producer.prepared import PreparedTransaction
from bowstring.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from bowstring.spark import coordination
from bowstring.spark.coordination import Coordination, Task, _pack, group_of
from bowstring.spark.python_sink import batch_writer
from tests.spark.micro_batches import SCHEMA, Context, Died, PythonQuery, Query, committed, ended, make_query
from tests.spark.python_workers import in_time
from tests.support.waiting import HANG_S, wait_until

ENGINES = ("python", "columnar")
# The session of each engine: a fixture.
SESSIONS = (("python", "python_spark"), ("columnar", "spark"))


@pytest.fixture(params=ENGINES)
def query(
    request: pytest.FixtureRequest, servers: str, make_topic: Callable[..., str], as_task: None
) -> Query:
    """A new query of each engine that writes a new topic."""
    return make_query(request.param, request, servers, make_topic(servers, 2))


@pytest.fixture
def as_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process run tasks of the Python engine."""
    monkeypatch.setattr(coordination, "TaskContext", Context)


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
    query.task(1, ["b"], 0)  # prepared, but never committed
    query.task(1, ["c"], 1)
    query.run(1, *parts, [])
    query.has("a", "b", "c")


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_decided_batch_is_committed_and_not_sent_again(query: Query, commits: int) -> None:
    query.run(0, ["a"])
    reports = [query.task(1, ["b"], 0), query.task(1, ["c"], 1)]
    query.decide(1, [each.prepared for each in reports if each.prepared is not None], commits)
    query.abort(1, *reports)  # what Spark calls after a failed commit
    again = [query.task(1, [value], at) for at, value in enumerate(("c", "b", "x"))]
    assert [each.records for each in again] == [0, 0, 0]
    query.commit(1, *again)
    query.has("a", "b", "c")
    query.run(2, ["d"])
    query.has("a", "b", "c", "d")


def test_the_driver_decides_before_it_commits(as_task: None, broker: Any, make_topic: Any) -> None:
    query = PythonQuery(broker.bootstrap_servers, make_topic(broker.bootstrap_servers, 2))
    reports = [query.task(0, ["a"], 0), query.task(0, ["b"], 1)]
    with pytest.MonkeyPatch.context() as patch:

        def die(self: Coordination, chosen: Sequence[PreparedTransaction], what: str) -> None:
            raise Died

        patch.setattr(Coordination, "commit", die)
        with pytest.raises(Died):
            query.commit(0, *reports)
    assert query.decision() == (0, [each.prepared for each in reports])


@pytest.mark.parametrize("first", ENGINES)
def test_a_query_changes_its_engine(
    request: pytest.FixtureRequest, servers: str, make_topic: Callable[..., str], as_task: None, first: str
) -> None:
    topic = make_topic(servers, 2)
    before = make_query(first, request, servers, topic)
    (second,) = {*ENGINES} - {first}
    after = make_query(second, request, servers, topic, before.id)
    before.run(0, ["a"])
    reports = [before.task(1, ["b"], 0), before.task(1, ["c"], 1)]
    before.task(1, ["b"], 0, attempt=1)  # the next batch sweeps it away
    chosen = [each.prepared for each in reports if each.prepared is not None]
    before.decide(1, chosen, commits=1)
    assert after.decision() == (1, chosen)
    after.run(1, ["c"], ["b"])
    before.task(2, ["d"])
    after.run(2, ["d"])
    after.has("a", "b", "c", "d")
    before.run(3, ["e"])
    before.has("a", "b", "c", "d", "e")


def test_a_committed_batch_that_spark_does_not_know_of(query: Query) -> None:
    query.run(0, ["a"], ["b"])
    query.run(0, ["b"], [], ["a"])
    query.run(0, [])
    query.has("a", "b")


def test_a_task_that_fails_is_repeated(query: Query) -> None:
    with pytest.raises(OSError):
        query.task(0, ["a", None], attempt=0)
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

    def rows() -> Iterator[str]:
        yield "b"
        query.run(1, ["b"])  # meanwhile: another driver, another run
        query.has("a", "b")
        yield "late"

    with pytest.raises(query.error):
        query.task(1, rows())
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
    report = query.task(0, ["a"])
    assert report.prepared is not None
    report.prepared.complete(query.servers, commit=False)
    with pytest.raises(query.error, match="Start the query again"):
        query.commit(0, report)
    report, other = query.task(0, ["a"], 0), query.task(0, ["b"], 1)
    assert report.prepared is not None and other.prepared is not None
    query.decide(0, [report.prepared, other.prepared])
    report.prepared.complete(query.servers, commit=False)
    for _ in range(2):
        with pytest.raises(query.error, match=f"1 of 2 .*delete the group '{group_of(query.id)}'"):
            query.commit(0, query.task(0, ["a"], 0))
    query.has("b")


def test_a_checkpoint_that_is_older_than_the_topic_is_told(query: Query) -> None:
    query.run(0, ["a"])
    query.run(1, ["b"])
    with pytest.raises(query.error, match="the checkpoint is at batch 0, but batch 1"):
        query.task(0, ["a"])


def test_metadata_of_others_is_told(query: Query) -> None:
    others = ("1:", "1:abc~", "1:Xk~0{Zv?hb", "2:", "2:Xk~0{Zv?hb", "2:0:Xk~0{Zv?hb", "2:x:", "3:0:")
    for offset, metadata in ((1, ""), *((offset, each) for offset in (1, -1) for each in others)):
        at = bowstring.OffsetAndMetadata(offset, metadata=metadata)
        with bowstring.Admin(query.servers) as admin:
            admin.alter_offsets(group_of(query.id), {bowstring.TopicPartition(query.topic, 0): at})
        with pytest.raises(query.error, match="has other metadata"):
            query.task(0, ["a"])


def test_a_decision_of_an_earlier_version_counts(query: Query) -> None:
    """It has the batch in the offset, and can be on the partition of another topic than the next one."""
    transactions = [
        PreparedTransaction(Task(query.id, 0, number, 0).transactional_id, number, 1) for number in (7, 8)
    ]
    packed = _pack(query.id, 4, transactions).split(":")[2]
    at = bowstring.OffsetAndMetadata(5, metadata=f"1:{packed}")
    with bowstring.Admin(query.servers) as admin:
        admin.alter_offsets(group_of(query.id), {bowstring.TopicPartition("__consumer_offsets", 0): at})
    assert query.decision() == (4, transactions)
    query.decide(5, transactions[:1])
    assert query.decision() == (5, transactions[:1])


def test_more_tasks_than_a_decision_can_name_are_told(query: Query) -> None:
    many = [
        PreparedTransaction(
            Task(query.id, 0, number, 0).transactional_id, number * 7919 % 10_007, number % 97
        )
        for number in range(1000)
    ]
    query.decide(0, many[:300])
    assert query.decision() == (0, many[:300])
    with pytest.raises(query.error, match="write with fewer tasks"):
        query.decide(1, many)
    assert query.decision() == (0, many[:300])


@pytest.mark.parametrize("engine", ENGINES)
def test_brokers_before_version_2_of_transactions(
    request: pytest.FixtureRequest, make_topic: Callable[..., str], as_task: None, engine: str
) -> None:
    with bowstring.Broker() as old:
        servers = old.bootstrap_servers
        set_feature(servers, "transaction.version", 0)
        query = make_query(engine, request, servers, make_topic(servers, 2))
        query.run(0, ["a"], ["b", "c", "d"])
        query.task(1, ["e"])
        query.run(1, ["e"])
        reports = [query.task(2, ["f"]), query.task(2, ["g"], 1)]
        query.decide(2, [each.prepared for each in reports if each.prepared is not None], commits=1)
        query.run(2, ["g"], ["f"])
        query.has("a", "b", "c", "d", "e", "f", "g")


def set_feature(servers: str, feature: str, level: int) -> None:
    """Sets the finalized level of a feature."""
    with contextlib.closing(NetworkClient("tests")) as client:
        cluster = ClusterMetadata(client, parse_bootstrap(servers), allow_auto_create=False)
        update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=2)
        body = UpdateFeaturesRequest(feature_updates=[update])
        answer = cluster.call(cluster.any_node, UpdateFeaturesRequest, body, HANG_S)
    assert answer.error_code == 0, answer


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delivery": "twice"}, "at-least-once or exactly-once"),
        ({"kafka.acks": "1"}, r"option kafka\.acks contradicts"),
        ({"kafka.enable.idempotence": "false"}, r"option kafka\.enable\.idempotence contradicts"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled contradicts"),
    ],
)
def test_options_that_contradict(
    spark: Any, broker: bowstring.Broker, options: dict[str, str], says: str
) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "delivery": "exactly-once"}
    with pytest.raises(ConfigError, match=says):
        batch_writer(given | options, SCHEMA, False)
    writer = spark.sql("SELECT 'v' value").write.format("bowstring").options(**(given | options))
    with pytest.raises(Exception, match=says):
        writer.mode("append").save()


@pytest.mark.parametrize(("engine", "session"), SESSIONS)
def test_spark_runs_a_batch_again(
    request: pytest.FixtureRequest,
    broker: bowstring.Broker,
    make_topic: Any,
    tmp_path: Path,
    engine: str,
    session: str,
) -> None:
    servers = broker.bootstrap_servers
    source, target = make_topic(servers, 3), make_topic(servers, 2)
    rows = (
        request.getfixturevalue(session)
        .readStream.format("bowstring")
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
    (query,) = (line["id"] for line in map(json.loads, (tmp_path / "metadata").read_text().splitlines()))
    with Coordination(servers, query) as coordination:
        decision = coordination.decision()
    assert decision is not None and decision.batch == int(last.name), engine
    with bowstring.Admin(servers) as admin:
        assert admin.committed_offsets(group_of(query)) == {}, "the group has no lag"


@pytest.mark.parametrize(("engine", "session"), SESSIONS)
def test_a_batch_job_is_committed_whole_or_not_at_all(
    request: pytest.FixtureRequest, broker: bowstring.Broker, make_topic: Any, engine: str, session: str
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 2)

    def write(select: str) -> None:
        frame = request.getfixturevalue(session).range(0, 100, 1, 3).selectExpr(select)
        options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": "exactly-once"}
        frame.write.format("bowstring").options(**options).mode("append").save()

    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        write("if(id < 99, cast(id as string), raise_error('no more')) value")
    wait_until(lambda: ended(servers, topic))
    assert committed(servers, topic) == []
    write("cast(id as string) value")
    wait_until(lambda: committed(servers, topic) == sorted(map(str, range(100))))


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "60 seconds"}])
def test_queries_without_micro_batches_are_refused(
    spark: Any, broker: bowstring.Broker, make_topic: Any, tmp_path: Path, trigger: dict[str, str]
) -> None:
    servers = broker.bootstrap_servers
    source, target = make_topic(servers), make_topic(servers)
    if "continuous" in trigger:
        rows = spark.readStream.format("rate").load()
    else:
        reader = spark.readStream.format("bowstring").option("kafka.bootstrap.servers", servers)
        rows = reader.options(subscribe=source, startingOffsets="earliest").load()
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    try:
        stream = (
            rows.selectExpr("cast(timestamp AS string) value")
            .writeStream.format("bowstring")
            .options(**{"kafka.bootstrap.servers": servers, "topic": target, "delivery": "exactly-once"})
            .options(checkpointLocation=str(tmp_path), _asyncProgressTrackingOverrideSinkSupportCheck="true")
            .outputMode("append" if "continuous" in trigger else "update")
            .trigger(**trigger)
        )
        with pytest.raises(Exception, match=r"needs micro-batches, .*trigger is (RealTime|.*continuous)"):
            stream.start().awaitTermination(HANG_S)
    finally:
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")
    assert committed(servers, target) == []
