"""How each kind of test is measured on one cluster."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.cases.cold import evict
from bench.kreps.brokers import Cluster, LocalCluster
from bench.kreps.catalogue import MODERN, PARTITIONS, RECORD_BYTES, Test
from bench.kreps.loads import Client, Done, Load, Order, begin
from bench.lab import wait_until_calm
from bench.peers.install import PeerError
from bench.peers.peer import HOST
from bench.peers.toolhost import ToolHost
from bench.peers.tools import PROBE, parse_probe, probe_arguments
from bench.peers.wire import Connection, wait_for_partitions
from bench.warm_memory import WarmMemory

GB = 1e9
MIB = 1 << 20
SAMPLE_SECONDS = 0.1
LATENCY_WARM_UP = 2_000
LATENCY_RECORDS = 5_000
SLOWEST_RECORDS_PER_SECOND = 20_000
# Told of (test, peer, records so far by load) while one runs.
Watch = Callable[[list[int]], None]


@dataclass
class Measured:
    """One test on one cluster in one round.

    Attributes:
        values: Figures; each name ends in its unit.
        timelines: Of each load: (seconds, records so far).
        points: Of a sweep: the value gone through (`x`), and the figures there.
    """

    values: dict[str, float]
    timelines: list[list[tuple[float, int]]] = field(default_factory=list)
    points: list[dict[str, float]] = field(default_factory=list)


class BrokerMeter:
    """CPU-seconds and greatest memory of a cluster between `with` and its end."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self.cpu_seconds = 0.0
        self.rss_peak_bytes = 0

    def __enter__(self) -> BrokerMeter:
        self._before = self._cluster.cpu_seconds()
        self._sampler.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._sampler.join()
        if exc_info[0] is None:
            self.cpu_seconds = self._cluster.cpu_seconds() - self._before

    def _sample(self) -> None:
        with suppress(OSError, KeyError, PeerError):  # a broker that ended is told of by who drives it
            while True:
                self.rss_peak_bytes = max(self.rss_peak_bytes, self._cluster.rss_bytes())
                if self._ended.wait(SAMPLE_SECONDS):
                    return


class Measurer:
    """Runs tests on a cluster.

    Args:
        cluster: started.
        client: which clients make the load.
        records: what a test with share 1 sends.
        work: a directory for logs.
        stored_bytes: how much the test of stored data writes.
        memory: filled before every test, or None.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        records: int,
        work: Path,
        *,
        stored_bytes: int,
        memory: WarmMemory | None = None,
    ):
        self.cluster = cluster
        self._client = client
        self._records = records
        self._work = work
        self._stored_bytes = stored_bytes
        self._memory = memory
        self._hosts: list[ToolHost] = []
        self._numbers = itertools.count(1)
        self.watch: Watch = lambda records: None

    def close(self) -> None:
        """Ends the JVMs of the clients."""
        for host in self._hosts:
            host.close()

    def warm_up(self, seconds: float) -> None:
        """Load before anything is measured: Kafka's JIT wants it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            topic = self._topic(1, PARTITIONS, {})
            self._produce(topic, max(1_000, self._records // 10), RECORD_BYTES, MODERN, 1)
            self._consume(topic, max(1_000, self._records // 10), 1)
            self._drop(topic)

    def measure(self, test: Test) -> Measured:
        """One round of a test.

        Raises:
            PeerError: a broker or a client failed.
        """
        if self._memory is not None:
            self._memory.fill()
        wait_until_calm()
        kinds: dict[str, Callable[[Test], Measured]] = {
            "produce": self._test_produce,
            "consume": self._test_consume,
            "both": self._test_both,
            "latency": self._test_latency,
            "stored": self._test_stored,
            "sizes": self._test_sizes,
            "partitions": self._test_partitions,
            "connections": self._test_connections,
            "cold": self._test_cold,
        }
        return kinds[test.kind](test)

    # ------------------------------------------------------------ kinds

    def _count(self, test: Test) -> int:
        return max(1_000, int(self._records * test.share))

    def _test_produce(self, test: Test) -> Measured:
        configs = test.topic_configs.get(self.cluster.name, {})
        topic = self._topic(test.replication, PARTITIONS, configs)
        found = self._produce(topic, self._count(test), RECORD_BYTES, test.settings, test.producers)
        self._drop(topic)
        return found

    def _test_consume(self, test: Test) -> Measured:
        records = self._count(test)
        topic = self._filled(records)
        found = self._consume(topic, records, test.consumers)
        self._drop(topic)
        return found

    def _test_both(self, test: Test) -> Measured:
        records = self._count(test)
        topic = self._topic(test.replication, PARTITIONS, {})
        bootstrap = self.cluster.bootstrap
        orders = [
            Order("consume", bootstrap, topic, records, RECORD_BYTES),
            Order("produce", bootstrap, topic, records, RECORD_BYTES, test.settings),
        ]
        with BrokerMeter(self.cluster) as meter:
            began = time.monotonic()
            read, written = self._run(orders)
            seconds = time.monotonic() - began
        self._drop(topic)
        found = self._figures([written], meter, RECORD_BYTES)
        found.values["records_per_second"] = min(written.records_per_second, read.records_per_second)
        found.values["produce_records_per_second"] = written.records_per_second
        found.values["consume_records_per_second"] = read.records_per_second
        found.values["wall_records_per_second"] = records / seconds
        return found

    def _test_latency(self, test: Test) -> Measured:
        topic = self._topic(test.replication, 1, {})
        warm_up = min(LATENCY_WARM_UP, self._records)
        count = min(LATENCY_RECORDS, self._records)
        if self._client == "native":
            trips = round_trips(self.cluster.bootstrap, topic, warm_up, count)
            cuts = {
                "p50": trips[count // 2],
                "p99": trips[int(count * 0.99)],
                "p999": trips[int(count * 0.999)],
            }
        else:
            arguments = probe_arguments(self.cluster.bootstrap, topic, warm_up, count, "1", RECORD_BYTES)
            found = parse_probe(self._java_hosts(1)[0].run(PROBE, arguments, 300))
            cuts = {"p50": found.p50_us / 1e3, "p99": found.p99_us / 1e3, "p999": found.p999_us / 1e3}
        self._drop(topic)
        return Measured({f"{name}_ms": value for name, value in cuts.items()})

    def _test_stored(self, test: Test) -> Measured:
        """One topic that grows, a gigabyte at a time."""
        topic = self._topic(test.replication, PARTITIONS, {})
        step = min(1e9, self._stored_bytes / 4)
        records = int(step / RECORD_BYTES)
        found = Measured({})
        stored = 0.0
        while stored + step <= self._stored_bytes:
            one = self._produce(topic, records, RECORD_BYTES, test.settings, 1)
            stored += step
            found.points.append({"x": stored / GB, **one.values})
        self._drop(topic)
        rates = sorted(point["records_per_second"] for point in found.points)
        found.values = {
            "records_per_second": rates[len(rates) // 2],
            "least_of_median": rates[0] / rates[len(rates) // 2],
            "most_of_median": rates[-1] / rates[len(rates) // 2],
        }
        return found

    def _test_sizes(self, test: Test) -> Measured:
        found = Measured({})
        for size in test.values:
            records = max(1_000, int(self._count(test) * min(1.0, 2 * RECORD_BYTES / size)))
            topic = self._topic(test.replication, PARTITIONS, {})
            one = self._produce(topic, records, size, test.settings | {"batch.size": "65536"}, 1)
            self._drop(topic)
            found.points.append({"x": size, **one.values})
            found.values[f"bytes_{size}_mb_per_second"] = one.values["mb_per_second"]
        return found

    def _test_partitions(self, test: Test) -> Measured:
        found = Measured({})
        for count in test.values:
            topic = self._topic(test.replication, count, {})
            one = self._produce(topic, self._count(test), RECORD_BYTES, test.settings, 1)
            self._drop(topic)
            found.points.append({"x": count, **one.values})
            found.values[f"partitions_{count}_records_per_second"] = one.values["records_per_second"]
        return found

    def _test_connections(self, test: Test) -> Measured:
        """Idle connections beside one producer: what many clients cost a broker that few of them use."""
        found = Measured({})
        for count in test.values:
            held = [self._connect() for _ in range(count - 1)]
            try:
                for connection in held:
                    connection.api_versions()
                topic = self._topic(test.replication, PARTITIONS, {})
                one = self._produce(topic, self._count(test), RECORD_BYTES, test.settings, 1)
            finally:
                for connection in held:
                    connection.__exit__()
            self._drop(topic)
            found.points.append({"x": count, **one.values})
            found.values[f"connections_{count}_records_per_second"] = one.values["records_per_second"]
        return found

    def _test_cold(self, test: Test) -> Measured:
        records = self._count(test)
        topic = self._filled(records)
        if not isinstance(self.cluster, LocalCluster):
            raise PeerError("the cold test takes files out of memory, which it can only do on this machine")
        for peer in self.cluster.peers:
            evict(peer, topic)
        found = self._consume(topic, records, 1)
        self._drop(topic)
        return found

    # ------------------------------------------------------------ loads

    def _produce(
        self, topic: str, records: int, record_bytes: int, settings: dict[str, str], producers: int
    ) -> Measured:
        order = Order("produce", self.cluster.bootstrap, topic, records, record_bytes, settings)
        with BrokerMeter(self.cluster) as meter:
            done = self._run([order] * producers)
        return self._figures(done, meter, record_bytes)

    def _consume(self, topic: str, records: int, consumers: int) -> Measured:
        order = Order("consume", self.cluster.bootstrap, topic, records, RECORD_BYTES)
        with BrokerMeter(self.cluster) as meter:
            done = self._run([order] * consumers)
        return self._figures(done, meter, RECORD_BYTES)

    def _run(self, orders: list[Order]) -> list[Done]:
        hosts: queue.SimpleQueue[ToolHost] = queue.SimpleQueue()
        if self._client == "java":
            for host in self._java_hosts(len(orders)):
                hosts.put(host)
        loads = [begin(self._client, order, hosts) for order in orders]
        limit = 120 + sum(order.records for order in orders) / SLOWEST_RECORDS_PER_SECOND
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(loads, ended), daemon=True)
        watcher.start()
        try:
            return [load.finish(limit) for load in loads]
        finally:
            ended.set()
            watcher.join()

    def _watch(self, loads: list[Load], ended: threading.Event) -> None:
        while not ended.wait(0.2):
            self.watch([load.records_so_far for load in loads])

    def _figures(self, done: list[Done], meter: BrokerMeter, record_bytes: int) -> Measured:
        payload_gb = sum(each.records for each in done) * record_bytes / GB
        rate = sum(each.records_per_second for each in done)
        values = {
            "records_per_second": rate,
            "mb_per_second": rate * record_bytes / 1e6,
            "broker_cpu_seconds_per_gb": meter.cpu_seconds / payload_gb,
            "client_cpu_seconds_per_gb": sum(each.cpu_seconds for each in done) / payload_gb,
            "broker_rss_peak_mib": meter.rss_peak_bytes / MIB,
        }
        for name in ("p50", "p99", "p99.9"):
            told = [each.percentiles_ms[name] for each in done if name in each.percentiles_ms]
            if told:
                values[f"ack_{name.replace('.', '')}_ms"] = max(told)
        return Measured(values, [each.timeline for each in done if each.timeline])

    def _java_hosts(self, count: int) -> list[ToolHost]:
        self._hosts = [host for host in self._hosts if host.alive]
        while len(self._hosts) < count:
            self._hosts.append(ToolHost(self._work / "tools", f"jvm-{next(self._numbers)}"))
        return self._hosts[:count]

    # ------------------------------------------------------------ topics

    def _connect(self) -> Connection:
        host, _, port = self.cluster.bootstrap.split(",")[0].rpartition(":")
        return Connection(host or HOST, int(port))

    def _topic(self, replication: int, partitions: int, configs: dict[str, str]) -> str:
        name = f"kreps-{os.getpid()}-{next(self._numbers)}"
        host, _, port = self.cluster.bootstrap.split(",")[0].rpartition(":")
        with self._connect() as connection:
            connection.create_topics([name], partitions, configs, replication=replication)
        wait_for_partitions(host or HOST, int(port), partitions, time.monotonic() + 60, [name])
        return name

    def _filled(self, records: int) -> str:
        topic = self._topic(1, PARTITIONS, {})
        self._produce(topic, records, RECORD_BYTES, MODERN, 1)
        wait_until_calm()
        return topic

    def _drop(self, topic: str) -> None:
        with self._connect() as connection:
            connection.delete_topics([topic])


def round_trips(bootstrap: str, topic: str, warm_up: int, count: int) -> list[float]:
    """Milliseconds from sending a record until a consumer has it, one after the other; in order of length."""
    import bowstring

    taken = []
    with (
        bowstring.Producer(bootstrap, acks=1, linger_ms=0) as producer,
        bowstring.Consumer(bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(topic, 0)])
        value = b"x" * RECORD_BYTES
        for number in range(warm_up + count):
            began = time.perf_counter()
            producer.send(topic, value, partition=0)
            while not consumer.poll(timeout=30):
                raise PeerError(f"record {number} did not arrive within 30 s")
            if number >= warm_up:
                taken.append((time.perf_counter() - began) * 1e3)
    return sorted(taken)
