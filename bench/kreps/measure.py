"""Measures each kind of test on one cluster."""

from __future__ import annotations

import itertools
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.kreps import many_connections
from bench.kreps.brokers import Cluster
from bench.kreps.catalogue import MODERN, PARTITIONS, RECORD_BYTES, Test
from bench.kreps.limits import STORED, point_figures
from bench.kreps.loads import Client, Done, Load, Order
from bench.kreps.machines import Machine
from bench.lab import EXPECTED_FAILURES
from bench.peers.install import PeerError
from bench.peers.wire import WireError, wait_for_partitions

GB = 1e9
MIB = 1 << 20
SAMPLE_SECONDS = 0.1
REMOTE_SAMPLE_SECONDS = 1.0
ISR_SECONDS = 1.0
FOLLOWERS_SECONDS = 120.0
FOLLOWERS_CHECK_SECONDS = 0.05
DELETED_AFTER_S = 2.0  # see log.segment.delete.delay.ms of bench.peers.peer
# Requesting the in-sync replicas of more partitions than this would itself be a load.
ISR_PARTITIONS_MAX = 100
LATENCY_WARM_UP = 2_000
LATENCY_RECORDS = 5_000
SLOWEST_RECORDS_PER_SECOND = 20_000
# Kafka's controller refuses requests that need over 10,000 records of its log.
PARTITIONS_AT_ONCE = 5_000
PARTITIONS_READY_SECONDS = 240.0
NEW_PARTITIONS_PER_SECOND = 10


@dataclass(frozen=True)
class Snapshot:
    """The present state.

    Attributes:
        orders: Of each load.
        records: Done so far, by load.
        latencies_ms: Recent time from sending to acknowledgement, by load; None if the client does not report
            it.
        in_sync: (fewest replicas in sync, replicas) of the topic's partitions; None while unknown.
    """

    orders: list[Order]
    records: list[int]
    latencies_ms: list[float | None]
    in_sync: tuple[int, int] | None


Watch = Callable[[Snapshot], None]


@dataclass
class Measured:
    """One test on one cluster in one round.

    Attributes:
        values: Figures; each name ends in its unit.
        timelines: Of each load: (seconds, records so far).
        points: Of a sweep: the value (`x`) and its figures.
    """

    values: dict[str, float]
    timelines: list[list[tuple[float, int]]] = field(default_factory=list)
    points: list[dict[str, float]] = field(default_factory=list)


class Followers:
    """Notes when all replicas in sync have what the loads write: it is the brokers' work, too.

    Args:
        records: Written by all loads together.
        began: When the loads did, by time.monotonic().
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int, records: int, began: float):
        self.records = records
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._began = began
        self._asked_to_end_at = float("inf")
        self._seconds = 0.0
        self._failure = ""
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def await_all(self) -> float:
        """Returns how long it took since the loads began.

        Raises:
            PeerError: It takes too long after the loads' end.
        """
        self._asked_to_end_at = time.monotonic() + FOLLOWERS_SECONDS
        self._thread.join()
        if self._failure:
            raise PeerError(self._failure)
        return self._seconds

    def _follow(self) -> None:
        while True:
            try:
                committed = self._cluster.committed(self._topic, self._partitions)
            except (OSError, WireError) as error:
                self._failure = f"the high watermarks cannot be read: {error}"
                return
            now = time.monotonic()
            if committed >= self.records:
                self._seconds = now - self._began
                return
            if now > self._asked_to_end_at:
                self._failure = f"only {committed:,} of {self.records:,} records were replicated in time"
                return
            time.sleep(FOLLOWERS_CHECK_SECONDS)


class SweepError(PeerError):
    """A sweep failed; `found` has the points before."""

    def __init__(self, found: Measured, message: str):
        super().__init__(message)
        self.found = found


class BrokerMeter:
    """Measures CPU-seconds and peak memory of a cluster between `with` and its end.

    Attributes:
        began: When it did, by time.monotonic().
        replicated_records, replicated_seconds: What all replicas had, and the time until they had it; 0
            without replicas.
    """

    def __init__(self, cluster: Cluster, sample_seconds: float):
        self._cluster = cluster
        self._sample_seconds = sample_seconds
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self.cpu_seconds = 0.0
        self.rss_peak_bytes = self.replicated_records = 0
        self.seconds = self.began = self.replicated_seconds = 0.0

    def __enter__(self) -> BrokerMeter:
        self._before, self.rss_peak_bytes = self._cluster.usage()
        self.began = time.monotonic()
        self._sampler.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._sampler.join()
        self.seconds = time.monotonic() - self.began
        if exc_info[0] is None:
            used, resident = self._cluster.usage()
            self.cpu_seconds = used - self._before
            self.rss_peak_bytes = max(self.rss_peak_bytes, resident)

    def _sample(self) -> None:
        while not self._ended.wait(self._sample_seconds):
            try:
                self.rss_peak_bytes = max(self.rss_peak_bytes, self._cluster.usage()[1])
            except (OSError, KeyError, PeerError):
                return  # the code that drives an ended broker reports it


class Measurer:
    """Runs tests on a cluster.

    Args:
        cluster: started.
        machines: that loads run on, in turn.
        client: which clients make the load.
        records: what a test with share 1 sends.
        stored_bytes: how much the test of stored data writes.
        settle: wait until the machines do little before each measurement.
        fill_memory: fill the brokers' memory before each round, see bench.warm_memory.
        loops: run a bare loop beside each point of the test of stored data.
        replication: of the topics of the warm-up.
    """

    def __init__(
        self,
        cluster: Cluster,
        machines: list[Machine],
        client: Client,
        records: int,
        *,
        stored_bytes: int,
        settle: bool = True,
        fill_memory: bool = False,
        loops: bool = True,
        replication: int = 1,
    ):
        self.cluster = cluster
        self.replication = replication
        self._machines = machines
        self._client = client
        self._records = records
        self._stored_bytes = stored_bytes
        self._settling = settle
        self._fill_memory = fill_memory
        self._loops = loops
        self._sample_seconds = SAMPLE_SECONDS if machines == cluster.machines else REMOTE_SAMPLE_SECONDS
        self._numbers = itertools.count(1)
        # Partitions and replicas of each topic.
        self._partitions: dict[str, int] = {}
        self._replication: dict[str, int] = {}
        self.watch: Watch = lambda snapshot: None

    def warm_up(self, seconds: float, clients: int) -> None:
        """Runs `clients` producers and as many consumers before anything is measured, for Kafka's JIT."""
        end = time.monotonic() + seconds
        records = max(1_000, self._records // (10 * clients))
        while time.monotonic() < end:
            topic = self._topic(self.replication, PARTITIONS, {})
            self._produce(topic, records, RECORD_BYTES, MODERN, clients)
            self._consume(topic, records * clients, clients)
            self._drop(topic)

    def measure(self, test: Test) -> Measured:
        """One round of a test.

        Raises:
            PeerError: a broker or a client failed.
        """
        self._settle(fill_memory=self._fill_memory)
        kinds: dict[str, Callable[[Test], Measured]] = {
            "produce": self._test_produce,
            "consume": self._test_consume,
            "both": self._test_both,
            "latency": self._test_latency,
            "stored": self._test_stored,
            "sizes": self._test_sizes,
            "partitions": self._test_partitions,
            "connections": self._test_connections,
            "active": self._test_active,
            "cold": self._test_cold,
        }
        return kinds[test.kind](test)

    def _settle(self, *, fill_memory: bool = False) -> None:
        if self._settling:
            for machine in self.cluster.machines:
                machine.settle(fill_memory=fill_memory)
            for machine in self._machines:
                if machine not in self.cluster.machines:
                    machine.settle(fill_memory=False)

    # ------------------------------------------------------------ kinds

    def _count(self, test: Test) -> int:
        return max(1_000, int(self._records * test.share))

    def _test_produce(self, test: Test) -> Measured:
        configs = test.topic_configs.get(self.cluster.name, {})
        topic = self._topic(test.replication, PARTITIONS, configs)
        records = self._count(test)
        found = self._produce(topic, records, RECORD_BYTES, test.settings, test.producers)
        self._check_replicas(test, topic, records * test.producers, found)
        self._drop(topic)
        return found

    def _test_consume(self, test: Test) -> Measured:
        records = self._count(test)
        topic = self._filled(records)
        found = self._consume(topic, records, test.consumers)
        self._drop(topic)
        return found

    def _test_both(self, test: Test) -> Measured:
        """Every consumer reads all that the producers write meanwhile."""
        records = self._count(test)
        total = records * test.producers
        topic = self._topic(test.replication, PARTITIONS, {})
        bootstrap = self.cluster.bootstrap
        read = Order("consume", bootstrap, topic, total, RECORD_BYTES)
        write = Order("produce", bootstrap, topic, records, RECORD_BYTES, test.settings)
        done, meter = self._run([read] * test.consumers + [write] * test.producers)
        readers, writers = done[: test.consumers], done[test.consumers :]
        found = self._figures(done, meter, total * RECORD_BYTES)
        rates = {
            "produce": sum(each.records_per_second for each in writers),
            "consume": sum(each.records_per_second for each in readers),
        }
        # The article's figure: records written and read by each consumer.
        found.values["records_per_second"] = min(rates["produce"], rates["consume"] / test.consumers)
        found.values |= {f"{name}_records_per_second": rate for name, rate in rates.items()}
        self._check_replicas(test, topic, total, found)
        self._drop(topic)
        return found

    def _check_replicas(self, test: Test, topic: str, records: int, found: Measured) -> None:
        if test.replication > 1:
            twice = self.cluster.check_replicas(topic, test.replication, records)
            found.values["stored_twice_records"] = float(twice)

    def _test_latency(self, test: Test) -> Measured:
        topic = self._topic(test.replication, 1, {})
        count, warm_up = (min(each, self._records) for each in (LATENCY_RECORDS, LATENCY_WARM_UP))
        order = Order("latency", self.cluster.bootstrap, topic, count, RECORD_BYTES, warm_up=warm_up)
        (done,), _ = self._run([order])
        self._drop(topic)
        cuts = {f"{name.replace('.', '')}_ms": value for name, value in done.percentiles_ms.items()}
        curve = [
            {"x": float(name[1:]), "ms": value}
            for name, value in done.percentiles_ms.items()
            if name != "max"
        ]
        return Measured(cuts, points=curve)

    def _test_stored(self, test: Test) -> Measured:
        """Fills one topic a gigabyte at a time, or a twelfth: a single step of some seconds is not
        significant. After each step, the bare loop appends as many bytes to files of its own that grow, too.
        """
        topic = self._topic(test.replication, PARTITIONS, {})
        step = max(min(GB, self._stored_bytes / 4), self._stored_bytes / 12)
        steps = [number * step / GB for number in range(1, int(self._stored_bytes / step + 1e-6) + 1)]
        records = int(step / RECORD_BYTES)
        machine = self.cluster.machines[0]

        def at(_: float) -> Measured:
            one = self._produce(topic, records, RECORD_BYTES, test.settings, 1)
            if self._loops:
                one.values |= point_figures(
                    machine.stored_step(self.cluster.name, STORED, math.ceil(step / MIB))
                )
            return one

        try:
            found = self._sweep(steps, "GB", at)
        finally:
            machine.stored_end(self.cluster.name)
        self._drop(topic)
        if self._settling:  # deleting frees much memory: fill it before the next round
            time.sleep(DELETED_AFTER_S)
            self._settle()
        median = statistics.median(point["records_per_second"] for point in found.points)
        found.values["records_per_second"] = median
        return found

    def _test_sizes(self, test: Test) -> Measured:
        def at(record_bytes: float) -> Measured:
            records = max(1_000, int(self._count(test) * min(1.0, 2 * RECORD_BYTES / record_bytes)))
            topic = self._topic(test.replication, PARTITIONS, {})
            one = self._produce(topic, records, int(record_bytes), test.settings, 1)
            self._drop(topic)
            return one

        return self._sweep(test.values, "bytes", at)

    def _test_partitions(self, test: Test) -> Measured:
        def at(partitions: float) -> Measured:
            topic = self._topic(test.replication, int(partitions), {})
            one = self._produce(topic, self._count(test), RECORD_BYTES, test.settings, 1)
            self._drop(topic)
            self._settle()
            return one

        return self._sweep(test.values, "partitions", at)

    def _test_connections(self, test: Test) -> Measured:
        """Measures idle connections beside one producer."""

        def at(connections: float) -> Measured:
            with ExitStack() as held:
                for _ in range(int(connections) - 1):
                    held.enter_context(self.cluster.connect()).api_versions()
                topic = self._topic(test.replication, PARTITIONS, {})
                one = self._produce(topic, self._count(test), RECORD_BYTES, test.settings, 1)
            self._drop(topic)
            return one

        return self._sweep(test.values, "connections", at)

    def _test_active(self, test: Test) -> Measured:
        """Measures connections with a small request in flight on each, whatever client other tests use."""

        def at(connections: float) -> Measured:
            topic = self._topic(test.replication, PARTITIONS, {})
            settings = {
                **test.settings,
                many_connections.CONNECTIONS: str(int(connections)),
                many_connections.PARTITIONS: str(PARTITIONS),
            }
            records = self._count(test)
            order = Order("produce", self.cluster.bootstrap, topic, records, RECORD_BYTES, settings)
            done, meter = self._run([order], "wire")
            self._drop(topic)
            return self._figures(done, meter, records * RECORD_BYTES)

        return self._sweep(test.values, "connections", at)

    def _sweep(self, values: Sequence[float], unit: str, at: Callable[[float], Measured]) -> Measured:
        """Measures at one value after another.

        Raises:
            SweepError: it failed at one; the error has the earlier results.
        """
        found = Measured({})
        for x in values:
            try:
                one = at(x)
            except EXPECTED_FAILURES as error:
                raise SweepError(found, f"at {x:,g} {unit}: {type(error).__name__}: {error}") from error
            found.points.append({"x": x, **one.values})
        return found

    def _test_cold(self, test: Test) -> Measured:
        records = self._count(test)
        topic = self._filled(records)
        self.cluster.evict(topic)
        found = self._consume(topic, records, 1)
        self._drop(topic)
        return found

    # ------------------------------------------------------------ loads

    def _produce(
        self, topic: str, records: int, record_bytes: int, settings: dict[str, str], producers: int
    ) -> Measured:
        order = Order("produce", self.cluster.bootstrap, topic, records, record_bytes, settings)
        done, meter = self._run([order] * producers)
        return self._figures(done, meter, records * producers * record_bytes)

    def _consume(self, topic: str, records: int, consumers: int) -> Measured:
        order = Order("consume", self.cluster.bootstrap, topic, records, RECORD_BYTES)
        done, meter = self._run([order] * consumers)
        return self._figures(done, meter, records * consumers * RECORD_BYTES)

    def _run(self, orders: list[Order], client: Client | None = None) -> tuple[list[Done], BrokerMeter]:
        """Returns the result of each load, and the brokers' usage since the start of the loads."""
        loads: list[Load] = []
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(orders, loads, ended), daemon=True)
        limit = 120 + sum(order.records for order in orders) / SLOWEST_RECORDS_PER_SECOND
        try:
            for number, order in enumerate(orders):
                loads.append(
                    self._machines[number % len(self._machines)].begin(client or self._client, order)
                )
            for load in loads:
                load.await_ready()
            with BrokerMeter(self.cluster, self._sample_seconds) as meter:
                for load in loads:
                    load.go()
                watcher.start()
                followers = self._followers(orders, meter.began)
                done = [load.finish(limit) for load in loads]
                if followers is not None:
                    meter.replicated_records = followers.records
                    meter.replicated_seconds = followers.await_all()
            return done, meter
        except BaseException:
            for load in loads:
                load.kill()
            raise
        finally:
            ended.set()
            if watcher.ident is not None:
                watcher.join()

    def _followers(self, orders: list[Order], began: float) -> Followers | None:
        topic = orders[0].topic
        if self._replication[topic] == 1:
            return None
        written = sum(order.records for order in orders if order.verb == "produce")
        return Followers(self.cluster, topic, self._partitions[topic], written, began)

    def _watch(self, orders: list[Order], loads: list[Load], ended: threading.Event) -> None:
        topic = orders[0].topic
        in_sync: tuple[int, int] | None = None
        asked = 0.0
        while not ended.wait(0.2):
            if time.monotonic() - asked > ISR_SECONDS and self._partitions[topic] <= ISR_PARTITIONS_MAX:
                asked = time.monotonic()
                try:
                    state = self.cluster.state(topic)
                    in_sync = (state.in_sync, state.replicas)
                except (OSError, WireError):
                    in_sync = None  # unknown; the code that drives an ended broker reports it
            self.watch(
                Snapshot(
                    orders,
                    [load.records_so_far for load in loads],
                    [load.latency_ms for load in loads],
                    in_sync,
                )
            )

    def _figures(self, done: list[Done], meter: BrokerMeter, payload_bytes: float) -> Measured:
        """Returns the figures. `payload_bytes`: basis of figures per GB: values written, or read by all
        consumers.
        """
        rate = sum(each.records_per_second for each in done)
        seconds = max(each.seconds for each in done)
        used = sum(each.cpu_seconds for each in done)
        # Of replicas, the brokers' work ends when all have all.
        brokers_seconds = meter.replicated_seconds or seconds
        values = {
            "records_per_second": rate,
            "mb_per_second": payload_bytes / seconds / 1e6,
            "broker_cpu_seconds_per_gb": meter.cpu_seconds / payload_bytes * GB,
            "client_cpu_seconds_per_gb": used / payload_bytes * GB,
            "broker_cores": meter.cpu_seconds / brokers_seconds,
            "client_cores": used / seconds,
            "broker_rss_peak_mib": meter.rss_peak_bytes / MIB,
            "client_rss_peak_mib": sum(each.rss_peak_bytes for each in done) / MIB,
        }
        if meter.replicated_seconds:
            # The loads' own clocks begin when they start, and end with their last acknowledgement.
            values["followers_behind_seconds"] = max(0.0, meter.replicated_seconds - seconds)
            values["replicated_records_per_second"] = meter.replicated_records / meter.replicated_seconds
        for name in ("p50", "p99", "p99.9"):
            told = [each.percentiles_ms[name] for each in done if name in each.percentiles_ms]
            if told:
                values[f"ack_{name.replace('.', '')}_ms"] = max(told)
        return Measured(values, [each.timeline for each in done if each.timeline])

    # ------------------------------------------------------------ topics

    def _topic(self, replication: int, partitions: int, configs: dict[str, str]) -> str:
        name = f"kreps-{os.getpid()}-{next(self._numbers)}"
        self._partitions[name], self._replication[name] = partitions, replication
        with self.cluster.connect() as connection:
            at_once = min(partitions, PARTITIONS_AT_ONCE)
            connection.create_topics([name], at_once, configs, replication=replication)
            for more in range(2 * PARTITIONS_AT_ONCE, partitions + PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE):
                connection.create_partitions(name, min(more, partitions))
        limit = PARTITIONS_READY_SECONDS + partitions / NEW_PARTITIONS_PER_SECOND
        first, *others = self.cluster.listeners
        wait_for_partitions(*first, partitions, time.monotonic() + limit, [name], others)
        return name

    def _filled(self, records: int) -> str:
        topic = self._topic(1, PARTITIONS, {})
        self._produce(topic, records, RECORD_BYTES, MODERN, 1)
        self._settle()
        return topic

    def _drop(self, topic: str) -> None:
        with self.cluster.connect() as connection:
            connection.delete_topics([topic])
