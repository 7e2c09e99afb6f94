"""Defines the amounts of each kind of run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Amounts of one kind of run.

    Attributes:
        peers: names of the brokers, in the order in which each round takes them.
        warm_up_seconds: load before the first measured round; Kafka's JIT needs 20 to 30 s of it.
        produce_records: records each producer sends.
        consume_records: records each consumer reads.
        client_records: 100-byte records that the quickest Python client sends; slower ones fewer.
        durable_records: 1 KiB records of a round in commit mode.
        cold_records: 1 KiB records that a consumer reads from the disk.
        cold_quiet_seconds: how long the producer beside it is measured alone.
        synced_records: 1 KiB records of a round against Kafka with flush.messages=1.
        recovery_bytes: topics of the recovery case.
        recovery_new_bytes: of them, written since the last checkpoint.
        compact_records: 100-byte records of the compaction case.
        compact_keys: keys they have.
        spark_rows: rows that each query of the Spark cases reads.
        spark_repeats: times that a query of them runs at most, of which the median counts.
        spark_batches: micro-batches of the median in their latency case.
        group_members: members whose heartbeats are measured.
        load_warm_up_seconds: of a load on a coordinator, before its measured part.
        load_seconds: of its measured part.
        loaded_groups: groups whose offsets a start reads.
        loaded_partitions: offsets that each of them has.
        dying_members: members of the KIP-848 group of which one dies.
        client_transactions: transactions of one producer of a client library.
        copied_records: 1 KiB records of the exactly-once copy.
        shared_records: records that a share group acknowledges one by one.
        handshakes: of TLS, and log-ins, of a round.
        access_pairs: runs with access control and without it, of a round; also with an audit and without.
        greedy_seconds: how long a client is measured beside a greedy one.
        loop_mib: what a bare loop moves in a round (see bench/limits).
        warm_memory: whether memory is filled before every round (see bench/warm_memory.py).
    """

    name: str
    peers: tuple[str, ...]
    rounds: int
    warm_up_seconds: float
    produce_records: int
    consume_records: int
    client_records: int
    durable_records: int
    synced_records: int
    cold_records: int
    cold_quiet_seconds: float
    latency_warm_up: int
    latency_records: int
    starts: int
    settle_seconds: float
    idle_seconds: float
    topics: int
    partitions_per_topic: int
    micro_seconds: float
    recovery_bytes: int
    recovery_new_bytes: int
    compact_records: int
    compact_keys: int
    spark_rows: int
    spark_repeats: int
    spark_batches: int
    group_members: int
    load_warm_up_seconds: float
    load_seconds: float
    loaded_groups: int
    loaded_partitions: int
    dying_members: int
    client_transactions: int
    copied_records: int
    shared_records: int
    handshakes: int
    access_pairs: int
    greedy_seconds: float
    loop_mib: int
    warm_memory: bool = True


BOTH = ("kafka", "bowstring")

SMOKE = Size(
    name="smoke",
    peers=("bowstring",),
    rounds=1,
    warm_up_seconds=0.0,
    produce_records=20_000,
    consume_records=20_000,
    client_records=20_000,
    durable_records=5_000,
    synced_records=1_000,
    cold_records=5_000,
    cold_quiet_seconds=0.5,
    latency_warm_up=50,
    latency_records=200,
    starts=1,
    settle_seconds=0.2,
    idle_seconds=0.5,
    topics=20,
    partitions_per_topic=5,
    micro_seconds=0.001,
    recovery_bytes=64 << 20,
    recovery_new_bytes=4 << 20,
    compact_records=20_000,
    compact_keys=2_000,
    spark_rows=40_000,
    spark_repeats=1,
    spark_batches=5,
    group_members=40,
    load_warm_up_seconds=0.2,
    load_seconds=0.5,
    loaded_groups=4,
    loaded_partitions=50,
    dying_members=4,
    client_transactions=20,
    copied_records=2_000,
    shared_records=10_000,
    handshakes=20,
    access_pairs=2,
    greedy_seconds=0.3,
    loop_mib=8,
    warm_memory=False,
)

SHORT = Size(
    name="short",
    peers=BOTH,
    rounds=3,
    warm_up_seconds=30.0,
    produce_records=5_000_000,
    consume_records=10_000_000,
    client_records=12_000_000,
    durable_records=1_500_000,
    synced_records=50_000,
    cold_records=2_000_000,
    cold_quiet_seconds=20.0,
    latency_warm_up=10_000,
    latency_records=20_000,
    starts=3,
    settle_seconds=5.0,
    idle_seconds=20.0,
    topics=1_000,
    partitions_per_topic=10,
    micro_seconds=0.1,
    recovery_bytes=10 << 30,
    recovery_new_bytes=256 << 20,
    compact_records=10_000_000,
    compact_keys=1_000_000,
    spark_rows=8_000_000,
    spark_repeats=5,
    spark_batches=60,
    group_members=10_000,
    load_warm_up_seconds=10.0,
    load_seconds=15.0,
    loaded_groups=1_000,
    loaded_partitions=1_000,
    dying_members=500,
    client_transactions=2_000,
    copied_records=1_000_000,
    shared_records=100_000,
    handshakes=3_000,
    access_pairs=30,
    greedy_seconds=11.0,
    loop_mib=2048,
)

FULL = Size(
    name="full",
    peers=BOTH,
    rounds=7,
    warm_up_seconds=60.0,
    produce_records=20_000_000,
    consume_records=40_000_000,
    client_records=40_000_000,
    durable_records=6_000_000,
    synced_records=200_000,
    cold_records=6_000_000,
    cold_quiet_seconds=60.0,
    latency_warm_up=20_000,
    latency_records=100_000,
    starts=9,
    settle_seconds=10.0,
    idle_seconds=20.0,
    topics=1_000,
    partitions_per_topic=10,
    micro_seconds=0.1,
    recovery_bytes=10 << 30,
    recovery_new_bytes=256 << 20,
    compact_records=10_000_000,
    compact_keys=1_000_000,
    spark_rows=24_000_000,
    spark_repeats=5,
    spark_batches=300,
    group_members=10_000,
    load_warm_up_seconds=20.0,
    load_seconds=60.0,
    loaded_groups=1_000,
    loaded_partitions=1_000,
    dying_members=500,
    client_transactions=10_000,
    copied_records=5_000_000,
    shared_records=500_000,
    handshakes=10_000,
    access_pairs=100,
    greedy_seconds=33.0,
    loop_mib=4096,
)

SIZES = {size.name: size for size in (SMOKE, SHORT, FULL)}
