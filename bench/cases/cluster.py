"""Measures clusters of three brokers: latency of acks=all, many partitions, the cost of an idle cluster."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from bench.cases.durability import RECORD_BYTES, SYNC_EACH
from bench.cases.produce import COMMIT
from bench.lab import Lab, wait_until_calm
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.members import MemberCluster
from bench.peers.wire import Connection, wait_for_partitions
from bench.procfs import cpu_seconds, memory
from bench.results import CaseResult
from bowstring._native.record.encode import encode_batch

MIB = 1 << 20
REPLICAS = 3
# Of the idle cluster, and of the cases in bench.cases.cluster_failures.
LED_PARTITIONS = 1_000
# Kafka's controller accepts at most 10,000 records in one operation, so topics are created by the hundred.
TOPICS_PER_REQUEST = 100
READY_TIMEOUT_SECONDS = 300.0
CHECK_SECONDS = 0.02
PAUSE_SECONDS = 0.003


def latency(lab: Lab, name: str, title: str, *, on_media: bool) -> CaseResult:
    """Sends one record at a time with acks=all to a partition with three replicas.

    Args:
        on_media: Acknowledged when it is on the media of all brokers; else from their page caches.
    """
    facts = {
        "record": f"{RECORD_BYTES} B value, acks=all",
        "replicas": str(REPLICAS),
        "records": f"{lab.size.latency_records // 10:,} after {lab.size.latency_warm_up // 10:,} of warm-up",
        "client": "a blocking socket",
    }
    if on_media:
        facts |= {"Bowstring's topic": str(COMMIT), "Kafka's topic": str(SYNC_EACH)}

    def measure(peer: str) -> dict[str, float]:
        configs = (COMMIT if peer == Bowstring.name else SYNC_EACH) if on_media else {}
        with lab.new_cluster(peer) as cluster:
            topic = new_topic(cluster, 1, configs=configs)
            leader = cluster.nodes[cluster.state(topic).leaders[0]]
            if lab.size.warm_memory:
                wait_until_calm()  # its start is over
            with leader.connect() as connection:
                times_ms = _send(
                    connection, topic, lab.size.latency_warm_up // 10, lab.size.latency_records // 10
                )
        cuts = statistics.quantiles(times_ms, n=1000)
        return {"p50_ms": cuts[499], "p99_ms": cuts[989], "p999_ms": cuts[998], "max_ms": max(times_ms)}

    return lab.alternate(CaseResult(name, title, facts), measure)


def idle(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures CPU and memory of each broker while nobody uses the cluster."""
    size = lab.size
    partitions = min(LED_PARTITIONS, size.topics * size.partitions_per_topic)
    facts = {
        "partitions": f"{partitions:,} with {REPLICAS} replicas each",
        "measured": f"{size.idle_seconds:g} s, beginning {size.settle_seconds:g} s after the last leader",
        "figures": "of the broker with the most",
    }

    def measure(peer: str) -> dict[str, float]:
        with lab.new_cluster(peer) as cluster:
            new_topic(cluster, partitions)
            time.sleep(size.settle_seconds)
            pids = [node.pid for node in cluster.nodes.values()]
            before = [cpu_seconds(pid) for pid in pids]
            began = time.monotonic()
            time.sleep(size.idle_seconds)
            seconds = time.monotonic() - began
            used = [cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True)]
            return {
                "cpu_percent": 100 * max(used) / seconds,
                "cpu_percent_of_all": 100 * sum(used) / seconds,
                "rss_mib": max(memory(pid).rss_bytes for pid in pids) / MIB,
                "rss_anon_mib": max(memory(pid).rss_anon_bytes for pid in pids) / MIB,
            }

    return lab.alternate(CaseResult(name, title, facts), measure, rounds=1)


def many_partitions(lab: Lab, name: str, title: str) -> CaseResult:
    """Creates many partitions with three replicas each, and restarts one of the brokers that hold them."""
    size = lab.size
    facts = {
        "topics": f"{size.topics:,}",
        "partitions per topic": f"{size.partitions_per_topic}, with {REPLICAS} replicas each",
        "create": f"{TOPICS_PER_REQUEST} topics a request, until every leader answers ListOffsets",
        "restart": "clean stop of one broker; fork until another one has it in its Metadata, and until all "
        "partitions have all replicas in sync",
        "memory": "of the broker with the most",
        "beside Metadata": "ListGroups every 3 ms, while another connection asks for the metadata of all "
        "partitions without a pause",
    }

    def measure(peer: str) -> dict[str, float]:
        with lab.new_cluster(peer) as cluster:
            return _measure_many(lab, cluster)

    return lab.alternate(CaseResult(name, title, facts), measure, rounds=1)


def _measure_many(lab: Lab, cluster: MemberCluster) -> dict[str, float]:
    topics, each = lab.size.topics, lab.size.partitions_per_topic
    names = [f"many-{number:04d}" for number in range(topics)]
    began = time.monotonic()
    with cluster.connect() as connection:
        for at in range(0, topics, TOPICS_PER_REQUEST):
            connection.create_topics(names[at : at + TOPICS_PER_REQUEST], each, replication=REPLICAS)
        answered_seconds = time.monotonic() - began
    _wait_for_leaders(cluster, topics * each, began + READY_TIMEOUT_SECONDS, names[-1:], each)
    create_seconds = time.monotonic() - began
    _wait_in_sync(cluster, began + READY_TIMEOUT_SECONDS)
    time.sleep(lab.size.settle_seconds)
    rss = max(memory(node.pid).rss_bytes for node in cluster.nodes.values())
    beside_ms = _beside_metadata(cluster, lab.size.settle_seconds)
    node = cluster.nodes[2]
    node.stop()
    stopped_seconds = node.stop_seconds
    time.sleep(lab.size.settle_seconds)
    began = time.monotonic()
    node.launch()
    with cluster.nodes[1].connect() as other:
        wait_for(lambda: other.brokers() == len(cluster.nodes), "the broker to return", READY_TIMEOUT_SECONDS)
        returned_seconds = time.monotonic() - began
    _wait_in_sync(cluster, began + READY_TIMEOUT_SECONDS)
    return {
        "create_seconds": create_seconds,
        "create_answered_seconds": answered_seconds,
        "stop_seconds": stopped_seconds,
        "restart_seconds": returned_seconds,
        "restart_in_sync_seconds": time.monotonic() - began,
        "rss_mib": rss / MIB,
        "beside_metadata_p50_ms": statistics.median(beside_ms),
        "beside_metadata_max_ms": max(beside_ms),
    }


def _beside_metadata(cluster: MemberCluster, seconds: float) -> list[float]:
    """Returns how long small requests take, in ms, while another client asks for all partitions."""
    end = time.monotonic() + seconds

    def ask_for_all() -> None:
        with cluster.nodes[1].connect() as connection:
            while time.monotonic() < end:
                connection.all_metadata()

    other = threading.Thread(target=ask_for_all, daemon=True)
    other.start()
    times_ms = []
    with cluster.nodes[1].connect() as connection:
        while time.monotonic() < end:
            began = time.perf_counter_ns()
            connection.list_groups()
            times_ms.append((time.perf_counter_ns() - began) / 1e6)
            time.sleep(PAUSE_SECONDS)
    other.join()
    return times_ms


# ---------------------------------------------------------------- also of bench.cases.cluster_failures


def new_topic(
    cluster: MemberCluster,
    partitions: int,
    *,
    leader: int | None = None,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Creates the topic of a case, and returns its name when all replicas of its partitions are in sync.

    Args:
        leader: The broker that leads all of them; by default the controller chooses.
    """
    name = "bench"
    others = [id for id in cluster.nodes if id != leader]
    rows = [[leader, *(others if at % 2 else others[::-1])] for at in range(partitions)] if leader else []
    with cluster.connect() as connection:
        connection.create_topics([name], partitions, configs, replication=REPLICAS, assignment=rows)
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    _wait_for_leaders(cluster, partitions, deadline)
    _wait_in_sync(cluster, deadline)
    return name


def a_record(value_bytes: int = RECORD_BYTES) -> bytes:
    """Returns a batch of one record."""
    return encode_batch([(None, bytes(value_bytes), time.time_ns() // 1_000_000, ())])


def wait_for(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Waits until a condition holds.

    Raises:
        PeerError: It does not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise PeerError(f"waited {seconds:.0f} s for {what}")
        time.sleep(CHECK_SECONDS)


def _wait_for_leaders(
    cluster: MemberCluster, partitions: int, deadline: float, newest: Sequence[str] = (), of_each: int = 0
) -> None:
    """Waits for the newest topics first: repeated requests for all would keep the brokers busy."""
    first, *others = cluster.listeners
    if newest:
        wait_for_partitions(*first, len(newest) * of_each, deadline, list(newest), others)
    wait_for_partitions(*first, partitions, deadline, others=others)


def _wait_in_sync(cluster: MemberCluster, deadline: float) -> None:
    with cluster.connect() as connection:

        def all_in_sync() -> bool:
            states = connection.topics().values()
            return all(state.in_sync == state.replicas for state in states)

        wait_for(all_in_sync, "all replicas to be in sync", deadline - time.monotonic())


def _send(connection: Connection, topic: str, warm_up: int, records: int) -> list[float]:
    batch = a_record()
    times_ms = []
    for number in range(warm_up + records):
        began = time.perf_counter_ns()
        connection.produce(topic, batch)
        if number >= warm_up:
            times_ms.append((time.perf_counter_ns() - began) / 1e6)
    return times_ms
