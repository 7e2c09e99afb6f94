"""The only topic of a stream is deleted under it, and perhaps made anew: both engines, every way to name it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bowstring
from tests.spark.topics import make_again
from tests.support.spark_topics import Sink, expected, fill
from tests.support.waiting import HANG_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

WAYS = {"subscribe": "{}", "subscribePattern": "{}|other", "assign": '{{"{}":[0]}}'}


@pytest.fixture(params=["columnar", "python"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begin(
    spark: SparkSession, checkpoint: Path, sink: Callable[..., None], servers: str, **options: str
) -> StreamingQuery:
    """A query that runs until it is stopped or fails."""
    quick = {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "50"}
    given = {"kafka.bootstrap.servers": servers, **quick, **options}
    frame = spark.readStream.format("bowstring").options(**given).load()
    return frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)).start()


def wait(query: StreamingQuery, condition: Callable[[], Any]) -> None:
    """Until the condition holds; fails at once if the query has failed, with its reason."""

    def is_so() -> bool:
        found = condition()
        assert found or query.isActive, query.exception()
        return bool(found)

    wait_until(is_so, lambda: query.lastProgress)


def delete(servers: str, topic: str) -> None:
    """Returns when it is gone: brokers delete in the background."""
    with bowstring.Admin(servers) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics())


@pytest.mark.parametrize("way", WAYS)
def test_it_ends_the_query(
    spark: SparkSession,
    broker: bowstring.Broker,
    make_topic: Callable[..., str],
    tmp_path: Path,
    engine: str,
    way: str,
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 50)
    sink = Sink()
    query = begin(spark, tmp_path, sink, servers, engine=engine, **{way: WAYS[way].format(topic)})
    try:
        wait(query, lambda: sink.rows == expected(1, 50))
        delete(servers, topic)
        with pytest.raises(Exception, match=rf"{topic}-0\]? are gone.*failOnDataLoss"):
            query.awaitTermination(HANG_S)
    finally:
        query.stop()
    # The checkpoint does not show that: the topic may come back, and the query continue.
    offsets = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert offsets.read_text().splitlines()[-1].replace(" ", "") == f'{{"{topic}":{{"0":50}}}}'


@pytest.mark.parametrize("way", WAYS)
def test_it_goes_on_with_what_comes(
    spark: SparkSession,
    broker: bowstring.Broker,
    make_topic: Callable[..., str],
    tmp_path: Path,
    engine: str,
    way: str,
) -> None:
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    fill(servers, topic, 50)
    sink = Sink()
    given = {way: WAYS[way].format(topic), "failOnDataLoss": "false", "engine": engine}
    query = begin(spark, tmp_path, sink, servers, **given)
    try:
        wait(query, lambda: sink.rows == expected(1, 50))
        delete(servers, topic)
        wait(query, lambda: (tmp_path / "commits" / "1").exists())
        assert (tmp_path / "offsets" / "1").read_text().splitlines()[-1] == "{}"
        sink.batches.clear()
        make_again(servers, topic)
        fill(servers, topic, 10)
        wait(query, lambda: sink.rows == expected(1, 10))
    finally:
        query.stop()


def test_made_anew_between_two_batches(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], tmp_path: Path, engine: str
) -> None:
    """No one saw it gone, and it ends behind the position read in the one before: its id is another."""
    topic = make_topic(servers)
    fill(servers, topic, 50)
    sink, read, go_on = Sink(), threading.Event(), threading.Event()

    def hold(frame: Any, number: int) -> None:
        sink(frame, number)
        if number == 0:
            read.set()
            assert go_on.wait(HANG_S)

    given = {"subscribe": topic, "failOnDataLoss": "false", "engine": engine}
    query = begin(spark, tmp_path, hold, servers, **given)
    try:
        wait(query, read.is_set)
        assert sink.rows == expected(1, 50)
        sink.batches.clear()
        delete(servers, topic)
        make_again(servers, topic)
        fill(servers, topic, 60)
        go_on.set()
        wait(query, lambda: sink.rows == expected(1, 60))
    finally:
        go_on.set()
        query.stop()
