"""Defines the bars: what Bowstring must reach, as ratios to Apache Kafka in the same run or as absolute
figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.bar_limits import (
    Limit,
    above,
    above_in_the_clear,
    at_least,
    at_most,
    at_most_share,
    below,
    below_in_the_clear,
    times_kafka,
    times_loop,
)
from bench.results import CaseResult

_SMALL = "commits offset-fetches offset-listings coordinator-lookups metadata-of-topics session-heartbeats"
KAFKA, BOWSTRING = "kafka", "bowstring"


@dataclass(frozen=True)
class Bar:
    """One row of the table."""

    figure: str
    case: str
    metric: str
    unit: str
    limits: tuple[Limit, ...]


BARS = (
    Bar(
        "broker CPU, produce 100 B, acks=1, batch.size 8196",
        "produce-small",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (at_most_share(6),),
    ),
    Bar(
        "broker CPU, produce, modern defaults (acks=all, idempotent, 16 KiB, linger 5 ms)",
        "produce-modern",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (at_most_share(6),),
    ),
    Bar(
        "broker CPU, produce, 64 KiB batches",
        "produce-large",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (at_most_share(5),),
    ),
    Bar(
        "broker CPU, consume",
        "consume",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (at_most_share(3), times_loop(1.15)),
    ),
    Bar(
        "broker CPU, consume, commit mode",
        "consume-commit",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (times_loop(1.15),),
    ),
    Bar(
        "broker CPU, produce over TLS 1.3, modern defaults",
        "tls-produce",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (at_most_share(2), below_in_the_clear("plain_cpu_seconds_per_gb")),
    ),
    Bar(
        "throughput, produce over TLS 1.3",
        "tls-produce",
        "records_per_second",
        "rec/s",
        (times_kafka(1.2),),
    ),
    Bar(
        "broker CPU, consume over TLS 1.3",
        "tls-consume",
        "cpu_seconds_per_gb",
        "CPU-s/GB",
        (at_most_share(3), times_loop(1.25)),
    ),
    Bar(
        "throughput, Bowstring's client over TLS 1.3, 3 producers, 8 KB batches",
        "tls-native",
        "records_per_second",
        "rec/s",
        (at_least(4e6, "rec/s"),),
    ),
    Bar(
        "three brokers, TLS and SCRAM everywhere, 3 producers, acks=all: share of plain text",
        "cluster-secured",
        "share_of_plain",
        "×",
        (at_least(0.6, "×"),),
    ),
    Bar(
        "the same, throughput",
        "cluster-secured",
        "records_per_second",
        "rec/s",
        (above_in_the_clear("plain_records_per_second"),),
    ),
    *(
        Bar(f"{rules}: {verb}, share of that without", case, f"{verb}_share", "×", (at_least(least, "×"),))
        for rules, case, least, verbs in (
            ("10,000 rules and quotas", "access", 0.97, ("produce", "fetch")),
            ("1,000 rules and quotas", "access-control-path", 0.9, _SMALL.split()),
        )
        for verb in verbs
    ),
    Bar(
        "topic that requires registered schemas, 100 B: produce, share of that without",
        "schemas",
        "produce_share",
        "×",
        (at_least(0.97, "×"),),
    ),
    *(
        Bar(
            f"10,000 rules and quotas: {cut} of a paced producer, times that without",
            "access",
            f"{cut}_over_off",
            "×",
            (at_most(1.05, "×"),),
        )
        for cut in ("p50", "p99")
    ),
    *(
        Bar(
            f"p99 of a paced producer beside a greedy client with a quota that {what}: times the quiet one",
            "greedy",
            f"beside_{verb}_p99_over_quiet",
            "×",
            (at_most(1.5, "×"),),
        )
        for verb, what in (("produce", "produces"), ("consume", "reads"))
    ),
    *(
        Bar(
            f"{call} with an audit of counts: CPU time, times that without",
            "audit",
            f"{call}_over_off",
            "×",
            (at_most(1.01, "×"),),
        )
        for call in ("send", "poll", "poll_arrow")
    ),
    Bar(
        "full handshakes of TLS 1.3, on one core",
        "tls-handshakes",
        "full_per_core_second",
        "1/s",
        (at_least(1500, "1/s"),),
    ),
    Bar(
        "the same, with resumption",
        "tls-handshakes",
        "resumed_per_core_second",
        "1/s",
        (at_least(5000, "1/s"),),
    ),
    Bar(
        "log-ins with SCRAM-SHA-256, on one core",
        "scram-logins",
        "logins_per_core_second",
        "1/s",
        (at_least(1000, "1/s"),),
    ),
    Bar(
        "p99 of a small request beside them: times the quiet one",
        "scram-logins",
        "p99_over_quiet",
        "×",
        (at_most(1.5, "×"),),
    ),
    Bar("throughput, 1 producer", "produce-small", "records_per_second", "rec/s", (above(),)),
    Bar(
        "throughput, 1 producer, modern defaults", "produce-modern", "records_per_second", "rec/s", (above(),)
    ),
    Bar("throughput, 1 producer, 64 KiB batches", "produce-large", "records_per_second", "rec/s", (above(),)),
    Bar("throughput, 3 producers", "produce-3", "records_per_second", "rec/s", (above(),)),
    Bar("throughput, 1 consumer", "consume", "records_per_second", "rec/s", (above(),)),
    Bar("throughput, 3 consumers", "consume-3", "records_per_second", "rec/s", (above(),)),
    Bar("throughput, both at once: the producer", "both", "produce_records_per_second", "rec/s", (above(),)),
    Bar("throughput, both at once: the consumer", "both", "consume_records_per_second", "rec/s", (above(),)),
    Bar("end-to-end latency, p50", "latency", "p50_ms", "ms", (at_most(0.25, "ms"),)),
    Bar("end-to-end latency, p99", "latency", "p99_ms", "ms", (at_most(1, "ms"),)),
    Bar("end-to-end latency, p99.9", "latency", "p999_ms", "ms", (at_most(3, "ms"),)),
    *(
        bar
        for case, load, pinned in (
            ("commit-small", "100 B, 8 KB batches", 1.0),
            ("commit-modern", "100 B, modern defaults", 1.15),
        )
        for bar in (
            Bar(
                f"commit mode, throughput, {load}; Kafka from its page cache",
                case,
                "records_per_second",
                "rec/s",
                (times_kafka(1.15),),
            ),
            Bar(f"the same, share of os mode, {load}", case, "share_of_os", "×", (at_least(0.95, "×"),)),
            Bar(f"the same, broker CPU, {load}", case, "cpu_seconds_per_gb", "CPU-s/GB", (at_most_share(4),)),
            Bar(
                f"the same, broker and clients pinned apart, {load}",
                case,
                "pinned_records_per_second",
                "rec/s",
                (times_kafka(pinned),),
            ),
            Bar(
                f"the same, broker CPU, pinned apart, {load}",
                case,
                "pinned_cpu_seconds_per_gb",
                "CPU-s/GB",
                (at_most_share(3),),
            ),
        )
    ),
    Bar(
        "commit mode, throughput, 1 KiB, six partitions; Kafka from its page cache",
        "durable",
        "records_per_second",
        "rec/s",
        (times_kafka(1.3),),
    ),
    Bar(
        "the same, broker and clients pinned apart, 1 KiB, six partitions",
        "durable",
        "pinned_records_per_second",
        "rec/s",
        (times_kafka(1.0),),
    ),
    Bar(
        "commit mode, throughput, 1 KiB, one partition; Kafka from its page cache",
        "durable-partitions",
        "one_records_per_second",
        "rec/s",
        (above(),),
    ),
    Bar(
        "commit mode, throughput, 1 KiB; Kafka with flush.messages=1",
        "durable-synced",
        "records_per_second",
        "rec/s",
        (times_kafka(20),),
    ),
    Bar("commit mode, latency of 1 KiB, p50", "durable-latency", "p50_ms", "ms", (at_most(0.2, "ms"),)),
    Bar("commit mode, latency of 1 KiB, p99", "durable-latency", "p99_ms", "ms", (at_most(0.45, "ms"),)),
    Bar("commit mode, latency of 1 KiB, p99.9", "durable-latency", "p999_ms", "ms", (at_most(2, "ms"),)),
    Bar(
        "commit mode, 10,000 partitions: share of the throughput of six",
        "durable-partitions",
        "share_of_six",
        "×",
        (at_least(0.7, "×"),),
    ),
    Bar(
        "commit mode, 10,000 partitions, memory",
        "durable-partitions",
        "many_rss_peak_mib",
        "MiB",
        (at_most(150, "MiB"),),
    ),
    *(
        Bar(
            f"p99 of producing beside a consumer {where}: times the quiet one",
            "cold",
            f"{key}_p99_over_quiet",
            "×",
            (at_most(limit, "×"),),
        )
        for key, where, limit in (
            ("paced", "of 200 MB/s from the disk", 2),
            ("cold", "at full speed from the disk", 5),
            ("cached", "at full speed from memory", 5),
        )
    ),
    *(
        Bar(f"p99 of producing beside a consumer {where}", "cold", f"{key}_p99_ms", "ms", (at_most_share(1),))
        for key, where in (("paced", "of 200 MB/s from the disk"), ("cold", "at full speed from the disk"))
    ),
    Bar(
        "recovery after an unclean stop, 10 GiB of topics, 256 MiB since the checkpoint",
        "recovery",
        "recovery_seconds",
        "s",
        (at_most(2, "s"),),
    ),
    Bar(
        "scan of recovery and scrubber, from the page cache, one core",
        "recovery",
        "scan_gb_per_second",
        "GB/s",
        (at_least(3, "GB/s"),),
    ),
    Bar(
        "compaction, 10 M records of 100 B with 1 M keys",
        "compaction",
        "records_per_second",
        "rec/s",
        (times_kafka(5),),
    ),
    Bar(
        "Python send_arrow, one process, acks=1",
        "arrow-produce",
        "records_per_second",
        "rec/s",
        (at_least(5e6, "rec/s"),),
    ),
    *(
        Bar(f"Python send_arrow: times {other}", case, metric, "×", (at_least(limit, "×"),))
        for other, case, metric, limit in (
            ("send() of as many records", "arrow-beside-send", "times_send", 1.5),
            ("confluent-kafka's loop", "arrow-produce", "times_confluent", 8),
            ("confluent-kafka tuned", "arrow-produce", "times_confluent_tuned", 8),
        )
    ),
    Bar("Python send(): times confluent-kafka", "send", "times_confluent", "×", (at_least(3, "×"),)),
    Bar(
        "Python send(): times confluent-kafka tuned",
        "send",
        "times_confluent_tuned",
        "×",
        (at_least(3, "×"),),
    ),
    Bar("Python send(): times kafka-python", "send", "times_kafka_python", "×", (at_least(20, "×"),)),
    Bar(
        "Python poll_arrow over TCP, one process",
        "arrow-consume",
        "records_per_second",
        "rec/s",
        (at_least(12e6, "rec/s"),),
    ),
    Bar(
        "Python poll_arrow: times confluent-kafka's consume()",
        "arrow-consume",
        "times_confluent",
        "×",
        (at_least(8, "×"),),
    ),
    Bar(
        "Python poll_arrow: times confluent-kafka tuned",
        "arrow-consume",
        "times_confluent_tuned",
        "×",
        (at_least(8, "×"),),
    ),
    Bar(
        "Python poll of JSON as dicts: times confluent-kafka with orjson",
        "poll-json",
        "times_confluent",
        "×",
        (at_least(5, "×"),),
    ),
    Bar(
        "Python poll of JSON as dicts: times confluent-kafka with orjson, tuned",
        "poll-json",
        "times_confluent_tuned",
        "×",
        (at_least(5, "×"),),
    ),
    Bar(
        "Python poll of Avro as dicts: times confluent-kafka with AvroDeserializer",
        "poll-avro",
        "times_confluent",
        "×",
        (at_least(5, "×"),),
    ),
    Bar(
        "Python poll of Avro as dicts: times confluent-kafka with AvroDeserializer, tuned",
        "poll-avro",
        "times_confluent_tuned",
        "×",
        (at_least(5, "×"),),
    ),
    Bar(
        "Python mapped local read",
        "local-read",
        "records_per_second",
        "rec/s",
        (at_least(30e6, "rec/s"),),
    ),
    *(
        Bar(f"Spark, columnar over TCP: {what}", "spark-queries", f"{key}_rows_per_second", "rows/s", limits)
        for key, what, limits in (
            ("count", "count", (times_kafka(15),)),
            ("sum", "sum(length(value))", (times_kafka(15),)),
            ("group", "groupBy(partition)", (times_kafka(15),)),
            ("noop", "all columns into noop", (times_kafka(8),)),
            ("available_now", "a stream, AvailableNow", (times_kafka(8),)),
            ("local_available_now", "AvailableNow, LocalCheckpointFileManager", (times_kafka(8),)),
        )
    ),
    Bar(
        "Spark, sum(length(value)): columnar over Parquet's",
        "spark-queries",
        "sum_over_parquet",
        "×",
        (at_least(1, "×"),),
    ),
    *(
        Bar(
            f"Spark, Python engine: {what}",
            "spark-queries",
            f"python_{key}_rows_per_second",
            "rows/s",
            (times_kafka(3),),
        )
        for key, what in (
            ("count", "count"),
            ("sum", "sum(length(value))"),
            ("group", "groupBy(partition)"),
            ("noop", "all columns into noop"),
            ("available_now", "a stream, AvailableNow"),
        )
    ),
    Bar(
        "Spark, from_json on values",
        "spark-values",
        "from_json_rows_per_second",
        "rows/s",
        (times_kafka(2.5),),
    ),
    Bar(
        "Spark, from_json: columnar over Parquet's",
        "spark-values",
        "from_json_over_parquet",
        "×",
        (at_least(1, "×"),),
    ),
    Bar("Spark, toArrow", "spark-values", "to_arrow_rows_per_second", "rows/s", (times_kafka(4),)),
    Bar("Spark, toPandas", "spark-values", "to_pandas_rows_per_second", "rows/s", (times_kafka(3),)),
    Bar("Spark sink", "spark-sink", "sink_rows_per_second", "rows/s", (times_kafka(2),)),
    Bar("Spark, micro-batch, p50", "spark-latency", "batch_p50_ms", "ms", (at_most(60, "ms"),)),
    Bar("Spark, real-time mode, p50", "spark-latency", "real_time_p50_ms", "ms", (at_most(2, "ms"),)),
    *(
        Bar(figure, "start", f"{metric}_seconds", "s", (at_most(limit, "s"),))
        for figure, metric, limit in (
            ("process start to first ApiVersions", "start", 0.15),
            ("the same, commit mode", "commit_start", 0.12),
            ("import bowstring, and Broker() has started", "embedded_start", 0.08),
        )
    ),
    Bar("idle memory", "idle", "rss_mib", "MiB", (at_most(40, "MiB"),)),
    Bar("idle CPU", "idle", "cpu_percent", "%", (at_most(0, "%"),)),
    Bar("memory under load", "memory", "rss_peak_mib", "MiB", (at_most(150, "MiB"),)),
    Bar("10,000 partitions, restart", "partitions", "restart_seconds", "s", (at_most(2, "s"),)),
    Bar(
        "10,000 partitions, memory of an idle one",
        "partitions",
        "rss_kib_per_partition",
        "KiB",
        (at_most(5, "KiB"),),
    ),
    Bar(
        "codec, Metadata v13 of 10,000 partitions, encode",
        "micro",
        "metadata.Metadata.time_encode[13, 10000] us",
        "µs",
        (at_most(5000, "µs"),),
    ),
    Bar(
        "codec, Metadata v13 of 10,000 partitions, decode",
        "micro",
        "metadata.Metadata.time_decode[13, 10000] us",
        "µs",
        (at_most(5000, "µs"),),
    ),
    *(
        bar
        for protocol, text in (("classic", "classic groups"), ("consumer", "KIP-848 groups"))
        for bar in (
            Bar(
                f"10,000 members in 100 {text}, heartbeats, broker CPU",
                f"heartbeats-{protocol}",
                "cpu_percent",
                "% of a core",
                (at_most(10, "%"),),
            ),
            Bar("the same, p99", f"heartbeats-{protocol}", "p99_ms", "ms", (at_most(10, "ms"),)),
        )
    ),
    Bar("OffsetCommit", "offset-commits", "commits_per_second", "1/s", (times_kafka(1.3),)),
    Bar(
        "OffsetCommit, a core of the broker",
        "offset-commits",
        "commits_per_cpu_second",
        "1/CPU-s",
        (at_least(10_000, "1/CPU-s"),),
    ),
    Bar("OffsetCommit, p99", "offset-commits", "p99_ms", "ms", (below(),)),
    *(
        Bar(figure, case, "per_second", "1/s", (times_kafka(1.3),))
        for figure, case in (
            ("OffsetFetch of one partition", "offset-fetches"),
            ("FindCoordinator", "coordinator-lookups"),
            ("Metadata of 100 topics", "metadata-of-topics"),
            ("ListOffsets", "offset-listings"),
            ("JoinGroup, with a SyncGroup each", "rejoins"),
            ("CreateTopics of one topic", "topic-creations"),
        )
    ),
    Bar("InitProducerId that raises an epoch, commit mode", "epoch-bumps", "per_second", "1/s", (above(),)),
    Bar("the same, one producer", "epoch-bumps", "alone_per_second", "1/s", (above(),)),
    Bar("1 M committed offsets loaded", "offsets-loaded", "load_seconds", "s", (at_most(2, "s"),)),
    Bar(
        "the same, another group's requests meanwhile, slowest",
        "offsets-loaded",
        "others_max_ms",
        "ms",
        (at_most(100, "ms"),),
    ),
    Bar(
        "KIP-848 group of 500 over 5,000 partitions, a member dies: settled after its session",
        "member-dies",
        "settled_after_session_seconds",
        "s",
        (at_most(1.5, "s"), at_most_share(1)),
    ),
    Bar(
        "the same, partitions never paused",
        "member-dies",
        "never_paused_percent",
        "%",
        (at_least(99, "%"),),
    ),
    Bar(
        "transactions of 10 partitions, one client process",
        "transactions",
        "commits_per_second",
        "1/s",
        (at_least(1_000, "1/s"), above()),
    ),
    Bar(
        "the same, one producer of Kafka's Java client",
        "transactions",
        "java_commits_per_second",
        "1/s",
        (above(),),
    ),
    Bar(
        "exactly-once copy, 1 KiB, a commit every 100 ms: share of the copy without",
        "exactly-once-copy",
        "share_of_without",
        "×",
        (at_least(0.8, "×"),),
    ),
    Bar("the same, exactly once", "exactly-once-copy", "records_per_second", "rec/s", (above(),)),
    Bar(
        "share group, 4 members, one partition, each record acknowledged by itself",
        "shared-records",
        "records_per_second",
        "rec/s",
        (above(),),
    ),
    Bar(
        "the same, broker CPU",
        "shared-records",
        "cpu_seconds_per_million",
        "CPU-s per million",
        (at_most_share(2),),
    ),
    Bar(
        "read_committed over read_uncommitted, nothing aborted",
        "read-committed",
        "committed_over_uncommitted",
        "×",
        (at_least(0.97, "×"),),
    ),
    Bar("three brokers, latency of acks=all, p50", "cluster-latency", "p50_ms", "ms", (at_most(0.5, "ms"),)),
    Bar("three brokers, latency of acks=all, p99", "cluster-latency", "p99_ms", "ms", (at_most(2, "ms"),)),
    Bar("the same, on three media, p50", "cluster-latency-commit", "p50_ms", "ms", (at_most(1, "ms"),)),
    Bar("the same, on three media, p99", "cluster-latency-commit", "p99_ms", "ms", (at_most(4, "ms"),)),
    Bar(
        "kill -9 of a broker that leads 1,000 partitions, until all take writes",
        "cluster-failover",
        "all_writes_ms",
        "ms",
        (at_most(1000, "ms"), below()),
    ),
    Bar(
        "controlled shutdown of 1,000 leaders, until its end",
        "cluster-shutdown",
        "stopped_ms",
        "ms",
        (at_most(500, "ms"),),
    ),
    Bar("the same, failed writes", "cluster-shutdown", "failed_writes", "", (at_most(0, ""),)),
    Bar("three brokers, 1,000 partitions, idle CPU", "cluster-idle", "cpu_percent", "%", (at_most(1, "%"),)),
    Bar("the same, memory of a broker", "cluster-idle", "rss_mib", "MiB", (at_most(60, "MiB"),)),
    Bar(
        "three brokers, creating 10,000 partitions",
        "cluster-partitions",
        "create_seconds",
        "s",
        (at_most(5, "s"),),
    ),
    Bar(
        "the same, restart of a broker until it is in sync",
        "cluster-partitions",
        "restart_in_sync_seconds",
        "s",
        (at_most(2, "s"),),
    ),
    Bar(
        "the same, a small request beside Metadata of all partitions, slowest",
        "cluster-partitions",
        "beside_metadata_max_ms",
        "ms",
        (at_most(50, "ms"),),
    ),
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a bar.

    Attributes:
        loop: the figure of the first bare loop that has it.
        met: None when unknown.
        text: `met`, `missed by 23 %: …` or `not measured: …`.
        of_run: whether the bar's case was part of the run.
    """

    bar: Bar
    kafka: float | None
    bowstring: float | None
    met: bool | None
    text: str
    loop: float | None = None
    of_run: bool = True

    @property
    def ratio(self) -> float | None:
        """Bowstring's figure over Kafka's."""
        if self.bowstring is None or not self.kafka:
            return None
        return self.bowstring / self.kafka

    @property
    def loop_ratio(self) -> float | None:
        """Bowstring's figure over the bare loop's."""
        if self.bowstring is None or not self.loop:
            return None
        return self.bowstring / self.loop

    def to_json(self) -> dict[str, Any]:
        """Converts to plain values for report.json."""
        return {
            "figure": self.bar.figure,
            "case": self.bar.case,
            "metric": self.bar.metric,
            "unit": self.bar.unit,
            "limits": [limit.text for limit in self.bar.limits],
            "kafka": self.kafka,
            "bowstring": self.bowstring,
            "ratio": self.ratio,
            "loop": self.loop,
            "loop_ratio": self.loop_ratio,
            "met": self.met,
            "verdict": self.text,
        }


def judge(bar: Bar, cases: dict[str, CaseResult]) -> Verdict:
    """Compares the medians of a run with one bar."""
    case = cases.get(bar.case)
    if case is None:
        return Verdict(bar, None, None, None, "not measured: the case was not run", of_run=False)
    kafka, own = case.median(KAFKA, bar.metric), case.median(BOWSTRING, bar.metric)
    loop = case.limit(bar.metric)
    if own is None:
        return Verdict(bar, kafka, own, None, f"not measured: {_why_missing(case, BOWSTRING)}", loop)
    verdicts = [_judge_limit(limit, own, _other(limit, bar, case), case) for limit in bar.limits]
    failed = [text for met, text in verdicts if met is False]
    unknown = [text for met, text in verdicts if met is None]
    failure = case.failure(BOWSTRING)
    if failure is not None:
        unknown.append(f"failed in round {failure.round}, see below")
    met = False if failed else None if unknown else True
    return Verdict(bar, kafka, own, met, "; ".join(failed + unknown) or "met", loop)


def _other(limit: Limit, bar: Bar, case: CaseResult) -> float | None:
    return case.limit(bar.metric) if limit.to_loop else case.median(KAFKA, limit.of or bar.metric)


def judge_all(cases: dict[str, CaseResult]) -> list[Verdict]:
    """Judges every row of the table."""
    return [judge(bar, cases) for bar in BARS]


def _judge_limit(limit: Limit, own: float, other: float | None, case: CaseResult) -> tuple[bool | None, str]:
    excess = limit.excess(own, other)
    if excess is None:
        if limit.to_loop:
            loop = next(iter(case.limits), "")
            return None, f"not compared ({limit.text}): the loop {_why_missing(case, loop)}"
        return None, f"not compared ({limit.text}): Kafka {_why_missing(case, KAFKA)}"
    if excess <= 1:
        return True, "met"
    how_much = f"{(excess - 1) * 100:.0f} %" if excess < 2 else f"{excess:.1f}×"
    return False, f"missed by {how_much} ({limit.text})"


def _why_missing(case: CaseResult, peer: str) -> str:
    failure = case.failure(peer)
    return "failed, see below" if failure is not None else "was not part of this run"
