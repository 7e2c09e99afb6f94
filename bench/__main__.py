"""Runs `python -m bench`: measures Bowstring beside Apache Kafka and writes perf_reports/.

`--short` (the default) takes about a quarter of an hour, `--full` some hours; `--smoke` runs every case in
its smallest size against Bowstring alone, to check the bench itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bench import machine, report
from bench.bars import judge_all
from bench.cases import (
    access,
    audit,
    clients,
    cluster,
    cluster_failures,
    cold,
    coordinators,
    durability,
    exactly_once,
    footprint,
    greedy,
    latency,
    logins,
    native_security,
    objects,
    schemas,
    security,
    spark,
    spark_latency,
)
from bench.cases.compaction import compaction
from bench.cases.consume import FilledTopics, consume, produce_and_consume
from bench.cases.micro import micro
from bench.cases.produce import LARGE_BATCHES, MODERN_DEFAULTS, SMALL_BATCHES, produce, produce_durably
from bench.cases.recovery import recovery
from bench.cases.warmup import memory_under_load, warm_up
from bench.lab import PEER_CLASSES, Lab, log
from bench.results import CaseResult, Run
from bench.sizes import SIZES, Size

REPORTS = report.ROOT / "perf_reports"

Kind = TypeVar("Kind")
# A case by name. Cases under load share warmed-up brokers; the others start their own.
Case = Callable[[Lab, FilledTopics, str], CaseResult]
FRESH: dict[str, Case] = {
    "start": lambda lab, _, name: footprint.start(lab, name, "Start"),
    "idle": lambda lab, _, name: footprint.idle(lab, name, "Idle"),
    "recovery": lambda lab, _, name: recovery(lab, name, "Recovery after an unclean stop"),
    "compaction": lambda lab, _, name: compaction(lab, name, "Log compaction"),
    "micro": lambda lab, _, name: micro(lab, name, "Micro benches of the native code"),
}
LOADED: dict[str, Case] = {
    "produce-small": lambda lab, _, name: produce(
        lab, name, "Produce 100 B, acks=1, batch.size 8196", SMALL_BATCHES
    ),
    "produce-modern": lambda lab, _, name: produce(
        lab, name, "Produce 100 B, modern defaults", MODERN_DEFAULTS
    ),
    "produce-large": lambda lab, _, name: produce(lab, name, "Produce 100 B, 64 KiB batches", LARGE_BATCHES),
    "produce-3": lambda lab, _, name: produce(lab, name, "Three producers at once", SMALL_BATCHES, 3),
    "consume": lambda lab, topics, name: consume(lab, topics, name, "Consume"),
    "consume-commit": lambda lab, topics, name: consume(
        lab, topics, name, "Consume what is acknowledged from the medium", commit=True
    ),
    "consume-3": lambda lab, topics, name: consume(lab, topics, name, "Three consumers at once", 3),
    "both": lambda lab, _, name: produce_and_consume(lab, name, "Produce and consume at once"),
    "latency": lambda lab, _, name: latency.end_to_end_latency(lab, name, "End-to-end latency"),
    "commit-small": lambda lab, _, name: produce_durably(
        lab,
        name,
        "Produce 100 B, acks=1, batch.size 8196, on the medium; Kafka from its page cache",
        SMALL_BATCHES,
    ),
    "commit-modern": lambda lab, _, name: produce_durably(
        lab, name, "Produce 100 B, modern defaults, on the medium; Kafka from its page cache", MODERN_DEFAULTS
    ),
    "durable": lambda lab, _, name: durability.against_page_cache(
        lab, name, "Produce 1 KiB, acknowledged from the medium; Kafka from its page cache"
    ),
    "durable-synced": lambda lab, _, name: durability.against_flush(
        lab, name, "Produce 1 KiB, acknowledged from the medium; Kafka with flush.messages=1"
    ),
    "durable-latency": lambda lab, _, name: durability.latency(
        lab, name, "Latency of one 1 KiB record on the medium"
    ),
    "durable-partitions": lambda lab, _, name: durability.many_partitions(
        lab, name, "Produce 1 KiB to 10,000 partitions, on the medium, beside one and six"
    ),
    "arrow-produce": lambda lab, _, name: clients.arrow_produce(
        lab, name, "Python: send_arrow beside confluent-kafka"
    ),
    "arrow-beside-send": lambda lab, _, name: clients.arrow_beside_send(
        lab, name, "Python: send_arrow beside send for each record"
    ),
    "send": lambda lab, _, name: clients.send(
        lab, name, "Python: send() per record beside confluent-kafka and kafka-python"
    ),
    "arrow-consume": lambda lab, topics, name: clients.arrow_consume(
        lab, topics, name, "Python: poll_arrow over TCP beside confluent-kafka and Java"
    ),
    "poll-json": lambda lab, _, name: objects.poll_json(
        lab, name, "Python: JSON of ten fields as dicts, beside confluent-kafka and orjson"
    ),
    "poll-avro": lambda lab, _, name: objects.poll_avro(
        lab, name, "Python: Avro by schema id as dicts, beside confluent-kafka's AvroDeserializer"
    ),
    "local-read": lambda lab, topics, name: clients.local_read(
        lab, topics, name, "Python: mapped segment files instead of TCP"
    ),
    "cold": lambda lab, _, name: cold.catch_up(lab, name, "A consumer catching up from the disk"),
    "memory": lambda lab, _, name: memory_under_load(lab, name, "Memory under load"),
}
# Their loads warm brokers up themselves.
COORDINATORS: dict[str, Case] = {
    "heartbeats-classic": lambda lab, _, name: coordinators.heartbeats(
        lab, name, "Heartbeats of 10,000 members of classic groups", coordinators.CLASSIC
    ),
    "heartbeats-consumer": lambda lab, _, name: coordinators.heartbeats(
        lab, name, "Heartbeats of 10,000 members of KIP-848 groups", coordinators.CONSUMER
    ),
    "offset-commits": lambda lab, _, name: coordinators.commits(lab, name, "OffsetCommit"),
    "offset-fetches": lambda lab, _, name: coordinators.storm(lab, name, "OffsetFetch"),
    "coordinator-lookups": lambda lab, _, name: coordinators.storm(lab, name, "FindCoordinator"),
    "metadata-of-topics": lambda lab, _, name: coordinators.storm(lab, name, "Metadata of 100 topics"),
    "offset-listings": lambda lab, _, name: coordinators.storm(lab, name, "ListOffsets"),
    "rejoins": lambda lab, _, name: coordinators.storm(lab, name, "JoinGroup and SyncGroup"),
    "topic-creations": lambda lab, _, name: coordinators.storm(lab, name, "CreateTopics"),
    "epoch-bumps": lambda lab, _, name: coordinators.epoch_bumps(
        lab, name, "Raising epochs of transactional producers"
    ),
    "offsets-loaded": lambda lab, _, name: coordinators.loading(lab, name, "Loading committed offsets"),
    "shared-records": lambda lab, _, name: coordinators.sharing(
        lab, name, "A share group that acknowledges records one by one"
    ),
    "member-dies": lambda lab, _, name: coordinators.member_dies(
        lab, name, "A member of a large KIP-848 group dies"
    ),
    "transactions": lambda lab, _, name: coordinators.transactions(
        lab, name, "Transactions of ten partitions"
    ),
    "exactly-once-copy": lambda lab, _, name: exactly_once.copy(
        lab, name, "A copy of 1 KiB records, exactly once and without transactions"
    ),
    "read-committed": lambda lab, _, name: exactly_once.read_committed(
        lab, name, "Committed transactions, read_committed and read_uncommitted"
    ),
}
LAST: dict[str, Case] = {
    "partitions": lambda lab, _, name: footprint.many_partitions(lab, name, "Many idle partitions"),
}
# Brokers with a listener for TLS each, which the case starts itself.
SECURED: dict[str, Case] = {
    "tls-produce": lambda lab, _, name: security.produce_over_tls(
        lab, name, "Produce 100 B over TLS 1.3, modern defaults, and in the clear"
    ),
    "tls-consume": lambda lab, _, name: security.consume_over_tls(
        lab, name, "Consume over TLS 1.3, and in the clear"
    ),
    "tls-native": lambda lab, _, name: native_security.produce_over_tls(
        lab, name, "Bowstring's client over TLS 1.3, three producers, and in the clear"
    ),
    "tls-handshakes": lambda lab, _, name: logins.handshakes(lab, name, "Handshakes of TLS 1.3"),
    "scram-logins": lambda lab, _, name: logins.logins(lab, name, "Log-ins with SCRAM-SHA-256"),
}
# Brokers with rules or quotas, which the case starts itself.
GUARDED: dict[str, Case] = {
    "access": lambda lab, _, name: access.rules_and_quotas(
        lab, name, "10,000 rules and quotas that allow everything, against none"
    ),
    "access-control-path": lambda lab, _, name: access.control_requests(
        lab, name, "Small requests with 1,000 rules and quotas that allow everything, against none"
    ),
    "schemas": lambda lab, _, name: schemas.validated(
        lab, name, "A topic that requires registered schemas, beside one that does not"
    ),
    "greedy": lambda lab, _, name: greedy.beside_another(
        lab, name, "A paced producer beside a greedy client, with a quota and without"
    ),
}
# A broker each, which the case starts itself.
COUNTED: dict[str, Case] = {
    "audit": lambda lab, _, name: audit.counted(
        lab, name, "Python: send and poll with an audit of counts, against none"
    ),
}
# Three brokers each, which the case starts itself.
CLUSTERS: dict[str, Case] = {
    "cluster-latency": lambda lab, _, name: cluster.latency(
        lab, name, "Three brokers: latency of acks=all, 1 KiB", on_media=False
    ),
    "cluster-latency-commit": lambda lab, _, name: cluster.latency(
        lab, name, "Three brokers: latency of acks=all, 1 KiB, on three media", on_media=True
    ),
    "cluster-secured": lambda lab, _, name: native_security.produce_to_cluster(
        lab, name, "Three brokers with TLS and SCRAM: three producers, acks=all"
    ),
    "cluster-failover": lambda lab, _, name: cluster_failures.failover(
        lab, name, "Three brokers: kill -9 of one that leads"
    ),
    "cluster-shutdown": lambda lab, _, name: cluster_failures.shutdown(
        lab, name, "Three brokers: controlled shutdown of one that leads"
    ),
    "cluster-idle": lambda lab, _, name: cluster.idle(lab, name, "Three brokers: idle"),
    "cluster-partitions": lambda lab, _, name: cluster.many_partitions(
        lab, name, "Three brokers: many partitions"
    ),
}
# Spark cases share a session and its topics.
SPARK: dict[str, Callable[[spark.SparkBench, str], CaseResult]] = {
    "spark-queries": lambda bench, name: spark.queries(bench, name, "Spark: queries over a topic"),
    "spark-values": lambda bench, name: spark.values(bench, name, "Spark: JSON values, rows into Python"),
    "spark-sink": lambda bench, name: spark.sink(bench, name, "Spark: rows into a topic"),
    "spark-latency": lambda bench, name: spark_latency.latency(bench, name, "Spark: latency of streams"),
}
ALL = [*FRESH, *LOADED, *COORDINATORS, *SPARK, *SECURED, *GUARDED, *COUNTED, *LAST, *CLUSTERS]


def measure(size: Size, work: Path, only: list[str]) -> Run:
    """Runs the cases named in `only` (all when empty) in `work`."""
    began = time.monotonic()
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    peers = {name: PEER_CLASSES[name](work / name).version() for name in size.peers}
    facts = machine.facts()
    if size.warm_memory:
        facts["memory"] += ", filled with page cache before every round"
    run = Run(size.name, started, facts, peers)
    with Lab(work, size) as lab:
        topics = FilledTopics(lab)
        _run_cases(run, lab, topics, _chosen(FRESH, only))
        if loaded := _chosen(LOADED, only):
            warm_up(lab)
            _run_cases(run, lab, topics, loaded)
        _run_cases(run, lab, topics, _chosen(COORDINATORS, only))
        if spark_cases := _chosen(SPARK, only):
            with spark.SparkBench(lab) as bench:
                for name, spark_case in spark_cases.items():
                    run.cases[name] = spark_case(bench, name)
        lab.stop_peers()
        _run_cases(run, lab, topics, _chosen(SECURED | GUARDED | COUNTED | LAST | CLUSTERS, only))
    run.duration_seconds = time.monotonic() - began
    return run


def main(arguments: list[str] | None = None) -> int:
    """Runs the bench and prints where the report is; 1 when a case failed."""
    options = _options(arguments)
    size = SIZES[options.size]
    if options.peers:
        size = replace(size, peers=tuple(options.peers))
    if options.rounds:
        size = replace(size, rounds=options.rounds)
    with tempfile.TemporaryDirectory(prefix="bowstring-bench-", dir=options.work) as directory:
        work = Path(directory)
        run = measure(size, work, options.only or [])
        written = report.write(run, options.output, work, options.name)
    log(report.summary(judge_all(run.cases)))
    print(written / "report.md")
    return 1 if any(case.failures for case in run.cases.values()) else 0


def _chosen(cases: dict[str, Kind], only: list[str]) -> dict[str, Kind]:
    return {name: case for name, case in cases.items() if not only or name in only}


def _run_cases(run: Run, lab: Lab, topics: FilledTopics, cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        run.cases[name] = case(lab, topics, name)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    group = parser.add_mutually_exclusive_group()
    for name in SIZES:
        group.add_argument(f"--{name}", dest="size", action="store_const", const=name)
    parser.set_defaults(size="short")
    parser.add_argument("--only", nargs="+", choices=ALL, metavar="CASE", help=", ".join(ALL))
    parser.add_argument("--peers", nargs="+", choices=list(PEER_CLASSES), help="brokers, in turn order")
    parser.add_argument("--rounds", type=int, help="number of rounds, instead of the size's")
    parser.add_argument("--name", help="suffix of the report directory's name, as in …-clients")
    parser.add_argument("--output", type=Path, default=REPORTS, help="parent of the report's directory")
    parser.add_argument("--work", type=Path, help="a directory with 30 GB free; default: TMPDIR")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
