"""Compares Spark's Kafka connector on Apache Kafka with both engines here on Bowstring.

Prefixes of figures distinguish the engines under `bowstring`: none for the columnar engine over TCP,
`from_kafka_`, `mapped_`, `python_`, and `parquet_` for the same rows in files.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.bars import BOWSTRING, KAFKA
from bench.lab import PARTITIONS, Lab
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.spark import SparkHost, Timing
from bench.results import CaseResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# 100 bytes, different in every row, so that no file format can compress them.
VALUE = "concat(repeat(md5(cast(id as string)), 3), 'abcd')"
JSON_VALUE = (
    'concat(\'{"a":\', cast(id as string), \',"b":"\', repeat(md5(cast(id as string)), 2), \'","c":1.5}\')'
)
JSON_SCHEMA = "a long, b string, c double"
JSON_SHARE, ARROW_SHARE = 4, 8  # slow queries: part of the rows is enough
# A query repeats for this time or `spark_repeats` runs, and the median counts: the first runs in a session
# warm up its compiler, and would make the first query of a round look slow.
REPEAT_SECONDS = 4.0

Query = Callable[["DataFrame"], object]


def _from_json(frame: DataFrame) -> object:
    parsed = frame.selectExpr(f"from_json(cast(value as string), '{JSON_SCHEMA}') j")
    return parsed.selectExpr("sum(j.a)", "max(j.b)", "sum(j.c)").collect()


QUERIES: dict[str, Query] = {
    "count": lambda frame: frame.count(),
    "sum": lambda frame: frame.selectExpr("sum(length(value))").collect(),
    "group": lambda frame: frame.groupBy("partition").count().collect(),
    "noop": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}


@dataclass
class Filled:
    """A broker's topics with the same rows, and their sizes."""

    plain: str
    json: str
    some: str


class SparkBench:
    """The session, the filled topics and the files of the Spark cases; closed after them."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.rows = lab.size.spark_rows
        self.work = lab.work / "spark"
        self.host = SparkHost(self.work)
        self._filled: dict[tuple[str, int], Filled] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> SparkBench:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.host.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def filled(self, peer: Peer) -> Filled:
        """Returns the peer's topics, written by the columnar sink on first use."""
        key = (peer.name, peer.pid)
        if key not in self._filled:
            topics = [self.lab.new_topic(peer) for _ in range(3)]
            shares = (self.rows, self.rows // JSON_SHARE, self.rows // ARROW_SHARE)
            for topic, rows, value in zip(topics, shares, (VALUE, JSON_VALUE, VALUE), strict=True):
                self._write(peer, topic, rows, value)
            self._filled[key] = Filled(*topics)
        return self._filled[key]

    def _write(self, peer: Peer, topic: str, rows: int, value: str) -> None:
        frame = self.host.session.range(0, rows, 1, 2).selectExpr("cast(id as string) key", f"{value} value")
        writer = frame.write.format("bowstring").option("kafka.bootstrap.servers", peer.bootstrap)
        self.host.timed(rows, lambda: writer.option("topic", topic).save())

    def files(self, topic: str, peer: Peer) -> DataFrame:
        """Returns the topic's rows as Parquet files, written on first use."""
        folder = self.work / "parquet" / topic
        if not folder.exists():
            self.reader("bowstring", peer, topic).write.parquet(str(folder))
        return self.host.session.read.parquet(str(folder))

    def reader(self, source: str, peer: Peer, topic: str, **options: str) -> DataFrame:
        """Returns a topic as rows."""
        servers = {"kafka.bootstrap.servers": peer.bootstrap, "subscribe": topic}
        return self.host.session.read.format(source).options(**servers, **options).load()

    def checkpoint(self) -> str:
        """Returns a new checkpoint directory."""
        return str(self.work / f"checkpoint-{next(self._numbers)}")

    def check(self, frame: DataFrame, rows: int) -> None:
        """Raises PeerError if the number of rows differs."""
        if (found := frame.count()) != rows:
            raise PeerError(f"{found} rows where {rows} were written")


# ---------------------------------------------------------------- reading


def queries(bench: SparkBench, name: str, title: str) -> CaseResult:
    """count, sum(length(value)), groupBy(partition), noop of all columns, and AvailableNow into noop."""
    case = CaseResult(name, title, _facts(bench))

    def measure(peer_name: str) -> dict[str, float]:
        peer = bench.lab.peer(peer_name)
        topic = bench.filled(peer).plain
        if peer_name == KAFKA:
            found = _all(bench, "", bench.reader("kafka", peer, topic)) | _stream(
                bench, "", "kafka", peer, topic
            )
            # Streams with local checkpoints, to compare with the Python engine.
            streams = {f"local_{key}": value for key, value in found.items() if "available_now" in key}
            return found | {f"python_{key}": value for key, value in found.items()} | streams
        bench.check(bench.reader("bowstring", peer, topic), bench.rows)
        found = _all(bench, "", bench.reader("bowstring", peer, topic))
        found |= _stream(bench, "", "bowstring", peer, topic)
        with bench.host.local_checkpoints():
            found |= _stream(bench, "local_", "bowstring", peer, topic)
        unpushed = bench.reader("bowstring", peer, topic, pushDownAggregate="false")
        found |= _timed(bench, bench.rows, QUERIES["group"], unpushed).figures("unpushed_group")
        found |= _all(bench, "mapped_", bench.reader("bowstring", peer, topic, local="true"))
        found |= _all(bench, "python_", bench.reader("bowstring", peer, topic, engine="python"))
        found |= _stream(bench, "python_", "bowstring", peer, topic, engine="python")
        found |= _all(bench, "parquet_", bench.files(topic, peer))
        if KAFKA in bench.lab.size.peers:
            kafka = bench.lab.peer(KAFKA)
            found |= _all(bench, "from_kafka_", bench.reader("bowstring", kafka, bench.filled(kafka).plain))
        found["sum_over_parquet"] = found["sum_rows_per_second"] / found["parquet_sum_rows_per_second"]
        return found

    return bench.lab.alternate(case, measure)


def values(bench: SparkBench, name: str, title: str) -> CaseResult:
    """from_json on values, and rows into Python: toArrow and toPandas."""
    case = CaseResult(name, title, _facts(bench))

    def measure(peer_name: str) -> dict[str, float]:
        peer = bench.lab.peer(peer_name)
        filled = bench.filled(peer)
        source = "kafka" if peer_name == KAFKA else "bowstring"
        json_rows, some_rows = bench.rows // JSON_SHARE, bench.rows // ARROW_SHARE
        json = bench.reader(source, peer, filled.json)
        found = _timed(bench, json_rows, _from_json, json).figures("from_json")
        some = bench.reader(source, peer, filled.some)
        found |= _timed(bench, some_rows, lambda frame: frame.toArrow(), some).figures("to_arrow")
        found |= _timed(bench, some_rows, lambda frame: frame.toPandas(), some).figures("to_pandas")
        if peer_name == BOWSTRING:
            files = bench.files(filled.json, peer)
            found |= _timed(bench, json_rows, _from_json, files).figures("parquet_from_json")
            ratio = found["from_json_rows_per_second"] / found["parquet_from_json_rows_per_second"]
            found["from_json_over_parquet"] = ratio
        return found

    return bench.lab.alternate(case, measure)


def _timed(bench: SparkBench, rows: int, query: Query, frame: DataFrame) -> Timing:
    runs: list[Timing] = []
    while len(runs) < bench.lab.size.spark_repeats and sum(run.seconds for run in runs) < REPEAT_SECONDS:
        runs.append(bench.host.timed(rows, lambda: query(frame)))
    seconds = statistics.median(run.seconds for run in runs)
    return Timing(rows, seconds, statistics.median(run.jvm_cpu_seconds for run in runs))


def _all(bench: SparkBench, prefix: str, frame: DataFrame) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, query in QUERIES.items():
        found |= _timed(bench, bench.rows, query, frame).figures(prefix + name)
    return found


def _stream(
    bench: SparkBench, prefix: str, source: str, peer: Peer, topic: str, **options: str
) -> dict[str, float]:
    reader = bench.host.session.readStream.format(source)
    reader = reader.options(**{"kafka.bootstrap.servers": peer.bootstrap, "subscribe": topic}, **options)
    frame = reader.option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", bench.checkpoint())

    def run() -> None:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seen = sum(progress["numInputRows"] for progress in query.recentProgress)
        if seen != bench.rows:
            raise PeerError(f"the stream saw {seen} of {bench.rows} rows")

    return bench.host.timed(bench.rows, run).figures(f"{prefix}available_now")


# ---------------------------------------------------------------- writing


def sink(bench: SparkBench, name: str, title: str) -> CaseResult:
    """Rows of a 100-byte value and a key into a topic, each sink with its defaults."""
    rows = bench.rows // 2
    case = CaseResult(name, title, _facts(bench) | {"rows": f"{rows:,}, made by range()"})

    def write(source: str, peer: Peer, figure: str) -> dict[str, float]:
        topic = bench.lab.new_topic(peer)
        columns = ["cast(id as string) key", f"'{'x' * 100}' value"]
        writer = bench.host.session.range(0, rows, 1, 2).selectExpr(*columns).write.format(source)
        options: dict[str, Any] = {"kafka.bootstrap.servers": peer.bootstrap, "topic": topic}
        timing = bench.host.timed(rows, lambda: writer.options(**options).save())
        bench.check(bench.reader("bowstring", peer, topic), rows)
        bench.lab.delete_topic(peer, topic)
        return timing.figures(figure)

    def measure(peer_name: str) -> dict[str, float]:
        peer = bench.lab.peer(peer_name)
        if peer_name == KAFKA:
            return write("kafka", peer, "sink")
        found = write("bowstring", peer, "sink")
        if KAFKA in bench.lab.size.peers:
            found |= write("bowstring", bench.lab.peer(KAFKA), "to_kafka_sink")
        return found

    return bench.lab.alternate(case, measure)


def _facts(bench: SparkBench) -> dict[str, str]:
    some = f"{bench.rows // JSON_SHARE:,} of JSON, {bench.rows // ARROW_SHARE:,} into Python"
    return {
        "rows": f"{bench.rows:,}; {some}",
        "record": "100 B value, key of up to 8 B",
        "partitions": str(PARTITIONS),
        "Spark": "local[2], 2 shuffle partitions; 3 GB heap; each query again for 4 s or 5 times, its median",
        "kafka": "spark-sql-kafka-0-10 on Apache Kafka",
        "bowstring": "columnar engine on Bowstring over TCP; other engines under names of their own",
    }
