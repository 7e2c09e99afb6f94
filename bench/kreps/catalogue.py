"""Lists the tests: the eight of the article with its settings, and newer ones.

Settings and figures are those of Jay Kreps's article of April 2014 and the scripts it links: three brokers
and three load machines with six cores and 1 Gb Ethernet each, 100-byte records, six partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict

# `make run` ends with one of these tests.
from bowstring.demo.headline import PARTITIONS as PARTITIONS
from bowstring.demo.headline import RECORD_BYTES as RECORD_BYTES
from bowstring.demo.headline import RECORDS_PER_S_2014
from bowstring.demo.headline import SETTINGS as SMALL

Kind = Literal[
    "produce", "consume", "both", "latency", "stored", "sizes", "partitions", "connections", "active", "cold"
]

BUFFER_MEMORY = SMALL["buffer.memory"]
LARGE_SYNC = {"acks": "-1", "batch.size": "64000", "buffer.memory": BUFFER_MEMORY}
LARGE_BATCHES = SMALL | {"batch.size": "65536"}
ONE_AT_A_TIME = {"acks": "1", "linger.ms": "0"}
MODERN = {"acks": "all", "enable.idempotence": "true"}
COMMIT = {"bowstring.durability": "commit"}


class Replicated(TypedDict):
    """What tests with replicas share."""

    share: float
    times_kafka: float
    kafka_cpu_divisor: float


@dataclass(frozen=True)
class Test:
    """One test.

    Attributes:
        name: Key in reports and on the command line.
        title: One line for people.
        kind: How it is measured.
        replication: Replicas of its topic; more than one needs that many brokers.
        settings: Of the producers, in Java's names.
        producers, consumers: Clients at once.
        topic_configs: Of the topic, by peer.
        figure_2014: Records a second of the article, or p50, p99 and p99.9 in ms; None where it has none.
        share: Part of a run's records that it sends; slow ones send fewer.
        values: The values of a sweep: record sizes, partitions, connections.
        bar: What Bowstring must reach with native clients and broker on one 2-core machine: records a second
            at least, or p50 and p99 in ms at most.
        times_kafka: What Bowstring must exceed with Java clients, in every run: so many times Kafka's records
            a second; 0: no such bar.
        kafka_cpu_divisor: With Java clients, the brokers' CPU per GB at most Kafka's divided by it; 0: no
            such bar.
        loop_bar: The same for the broker's CPU per GB: at most so many times the bare loop's; 0: no such bar.
    """

    name: str
    title: str
    kind: Kind = "produce"
    replication: int = 1
    settings: dict[str, str] = field(default_factory=lambda: dict(SMALL))
    producers: int = 1
    consumers: int = 0
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    figure_2014: tuple[float, ...] | None = None
    share: float = 1.0
    values: tuple[int, ...] = ()
    bar: tuple[float, ...] = ()
    loop_bar: float = 0.0
    times_kafka: float = 0.0
    kafka_cpu_divisor: float = 0.0


# A run of 20,000,000 records sends more than 50,000,000 with three producers: a sustained rate.
REPLICATED: Replicated = {"share": 0.84, "times_kafka": 1.0, "kafka_cpu_divisor": 4.0}

ARTICLE = (
    Test("producer", "1 producer, no replication", figure_2014=(821_557,), bar=(5e6,), loop_bar=1.25),
    Test(
        "producer-async",
        "1 producer, 3× asynchronous",
        replication=3,
        figure_2014=(786_980,),
        bar=(2e6,),
        **REPLICATED,
    ),
    Test(
        "producer-sync",
        "1 producer, 3× synchronous",
        replication=3,
        settings=LARGE_SYNC,
        figure_2014=(421_823,),
        bar=(1.5e6,),
        **REPLICATED,
    ),
    Test(
        "producers-3-async",
        "3 producers, 3× asynchronous",
        replication=3,
        producers=3,
        figure_2014=(RECORDS_PER_S_2014,),
        bar=(RECORDS_PER_S_2014,),
        **REPLICATED,
    ),
    Test("stored", "producer throughput against stored data", kind="stored"),
    Test(
        "consumer",
        "1 consumer",
        kind="consume",
        producers=0,
        consumers=1,
        figure_2014=(940_521,),
        bar=(12e6,),
        loop_bar=1.15,
    ),
    Test(
        "consumers-3",
        "3 consumers",
        kind="consume",
        producers=0,
        consumers=3,
        figure_2014=(2_615_968,),
        bar=(12e6,),
        loop_bar=1.15,
    ),
    Test(
        "both",
        "producer and consumer together",
        kind="both",
        consumers=1,
        figure_2014=(795_064,),
        share=0.5,
        bar=(3e6,),
    ),
    Test(
        "both-replicated",
        "producer and consumer together, 3×",
        kind="both",
        replication=3,
        consumers=1,
        **REPLICATED,
    ),
    Test(
        "latency",
        "end-to-end latency",
        kind="latency",
        settings=ONE_AT_A_TIME,
        consumers=1,
        figure_2014=(2, 3, 14),
        bar=(0.2, 1.0),
    ),
)
ADDED = (
    Test("producers-3", "3 producers, one broker", producers=3, share=0.5, bar=(5e6,)),
    Test("mixed", "3 producers and 3 consumers together", kind="both", producers=3, consumers=3, share=0.1),
    Test(
        "sizes",
        "1 producer, record size",
        kind="sizes",
        settings=LARGE_BATCHES,
        values=(10, 100, 1_000, 10_000, 100_000),
        share=0.3,
    ),
    Test("modern", "1 producer, today's defaults", settings=MODERN),
    Test(
        "modern-replicated",
        "1 producer, 3×, today's defaults",
        settings=MODERN,
        replication=3,
        **REPLICATED | {"times_kafka": 2.0},
    ),
    Test(
        "commit",
        "1 producer, acknowledged from the medium",
        settings=MODERN,
        topic_configs={"bowstring": COMMIT, "kafka": {"flush.messages": "1"}},
        share=0.1,
    ),
    Test(
        "commit-3",
        "3 producers, acknowledged from the medium",
        producers=3,
        topic_configs={"bowstring": COMMIT, "kafka": {"flush.messages": "1"}},
        share=0.3,
        bar=(4e6,),
    ),
    Test(
        "partitions",
        "1 producer, many partitions",
        kind="partitions",
        values=(1, 10, 100, 1_000, 10_000),
        share=0.2,
    ),
    Test(
        "connections",
        "1 producer beside idle connections",
        kind="connections",
        values=(1, 10, 100, 1_000),
        share=0.2,
    ),
    Test(
        "active",
        "many connections, a request at a time on each",
        kind="active",
        settings={"acks": "1"},
        values=(1, 10, 100, 1_000),
        share=0.05,
    ),
    Test("cold", "1 consumer, what it reads not in memory", kind="cold", producers=0, consumers=1),
)
TESTS = {test.name: test for test in ARTICLE + ADDED}
