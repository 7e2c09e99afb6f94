"""Measures how soon a streaming query sees a record: the shortest micro-batch, and real-time mode."""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import nullcontext
from typing import Any

import bowstring
from bench.bars import BOWSTRING, KAFKA
from bench.cases.spark import SparkBench
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.results import CaseResult

SEND_EVERY_S = 0.005
WARM_UP_BATCHES = 10
TIMEOUT_S = 120.0
SETTLE_NS = 2_000_000_000


def latency(bench: SparkBench, name: str, title: str) -> CaseResult:
    """Measures medians while a record comes every 5 ms; each source stores checkpoints in its own way."""
    batches = bench.lab.size.spark_batches
    facts = {
        "batches": f"{batches}, after {WARM_UP_BATCHES}",
        "load": "one record every 5 ms",
        "kafka": "spark-sql-kafka-0-10 on Apache Kafka, Spark's checkpoint files",
        "bowstring": "columnar engine on Bowstring, LocalCheckpointFileManager",
        "real time": "record sent to record read behind the query, which writes to a topic",
    }
    case = CaseResult(name, title, facts)

    def measure(peer_name: str) -> dict[str, float]:
        peer = bench.lab.peer(peer_name)
        found = {"batch_p50_ms": _micro_batch_ms(bench, peer, batches)}
        if peer_name == BOWSTRING:
            found |= _real_time(bench, peer, batches * 10)
        return found

    return bench.lab.alternate(case, measure)


class Trickle:
    """Sends a record with its send time every 5 ms until closed."""

    def __init__(self, peer: Peer, topic: str):
        self._producer = bowstring.Producer(peer.bootstrap, linger_ms=0)
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trickle", daemon=True)

    def _run(self) -> None:
        while not self._over.wait(SEND_EVERY_S):
            self._producer.send(self._topic, b"%d" % time.monotonic_ns(), partition=0)

    def __enter__(self) -> Trickle:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.close()


def _micro_batch_ms(bench: SparkBench, peer: Peer, batches: int) -> float:
    spark = bench.host.session
    topic = bench.lab.new_topic(peer)
    source = "kafka" if peer.name == KAFKA else "bowstring"
    reader = spark.readStream.format(source)
    frame = reader.options(**{"kafka.bootstrap.servers": peer.bootstrap, "subscribe": topic}).load()
    seen: dict[int, float] = {}
    with bench.host.local_checkpoints() if peer.name == BOWSTRING else nullcontext():
        query = frame.writeStream.format("noop").option("checkpointLocation", bench.checkpoint()).start()
        with Trickle(peer, topic):
            deadline = time.monotonic() + TIMEOUT_S
            while len(seen) < WARM_UP_BATCHES + batches:
                if time.monotonic() > deadline or not query.isActive:
                    raise PeerError(f"{source}: {len(seen)} micro-batches in {TIMEOUT_S:.0f} s")
                for progress in query.recentProgress:
                    if progress["numInputRows"] > 0:
                        seen[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
                time.sleep(0.1)
        query.stop()
    bench.lab.delete_topic(peer, topic)
    return statistics.median([seen[batch] for batch in sorted(seen)][WARM_UP_BATCHES:])


def _real_time(bench: SparkBench, peer: Peer, records: int) -> dict[str, float]:
    source, target = bench.lab.new_topic(peer, partitions=1), bench.lab.new_topic(peer, partitions=1)
    servers = {"kafka.bootstrap.servers": peer.bootstrap}
    frame = bench.host.session.readStream.format("bowstring").options(**servers, subscribe=source).load()
    writer: Any = (  # PySpark's type stubs lack `realTime`
        frame.selectExpr("value")
        .writeStream.format("kafka")
        .options(**servers, **{"topic": target, "kafka.linger.ms": "0"})
        .option("checkpointLocation", bench.checkpoint())
        .outputMode("update")
    )
    query = writer.trigger(realTime="10 seconds").start()
    try:
        waited = _delays_ms(peer, source, target, records)
    finally:
        query.stop()
    for topic in (source, target):
        bench.lab.delete_topic(peer, topic)
    cuts = statistics.quantiles(waited, n=100)
    return {"real_time_p50_ms": cuts[49], "real_time_p99_ms": cuts[98]}


def _delays_ms(peer: Peer, source: str, target: str, records: int) -> list[float]:
    waited: list[float] = []
    deadline = time.monotonic() + TIMEOUT_S
    settled_ns: int | None = None
    with (
        bowstring.Consumer(peer.bootstrap, auto_offset_reset="earliest") as consumer,
        Trickle(peer, source),
    ):
        consumer.assign([(target, 0)])
        while len(waited) < records:
            if time.monotonic() > deadline:
                raise PeerError(f"real-time mode: {len(waited)} records in {TIMEOUT_S:.0f} s")
            for record in consumer.poll(timeout=0.5):
                sent_ns, now_ns = int(record.value or b"0"), time.monotonic_ns()
                # Records sent during the query's start waited for that.
                settled_ns = settled_ns or now_ns + SETTLE_NS
                if sent_ns > settled_ns:
                    waited.append((now_ns - sent_ns) / 1e6)
    return waited
