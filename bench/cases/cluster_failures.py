"""Measures how long writes wait when a broker that leads many partitions is killed, or shuts down."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.cases.cluster import LED_PARTITIONS, a_record, new_topic, wait_for
from bench.lab import Lab
from bench.peers.install import PeerError
from bench.peers.members import MemberCluster
from bench.peers.wire import Connection, WireError
from bench.results import CaseResult
from bowstring.protocol.errors import Errors

SESSIONS = {"broker.session.timeout.ms": "500", "broker.heartbeat.interval.ms": "100"}
VALUE_BYTES = 100
RETRY_SECONDS = 0.005
WRITES_TIMEOUT_SECONDS = 120.0
# Errors after which clients look up the leader again.
PASSING = {
    Errors.NOT_LEADER_OR_FOLLOWER.code,
    Errors.LEADER_NOT_AVAILABLE.code,
    Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
    Errors.NOT_ENOUGH_REPLICAS.code,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND.code,
    Errors.REQUEST_TIMED_OUT.code,
    Errors.KAFKA_STORAGE_ERROR.code,
}


def failover(lab: Lab, name: str, title: str) -> CaseResult:
    """Kills a broker that leads all partitions: one that is not the active controller, then one that is."""
    partitions = _partitions(lab)
    facts = {
        "partitions": f"{partitions:,}, led by the broker that is killed (kill -9)",
        "settings": str(SESSIONS),
        "measured": "from the kill until an acks=all record of each partition was acknowledged, written by "
        "blocking sockets that try again after 5 ms",
        "with controller": "the killed broker is also the active controller; the quorum's timeouts are "
        "the defaults",
    }

    def measure(peer: str) -> dict[str, float]:
        apart = _kill_one(lab, peer, partitions, active=False)
        both = _kill_one(lab, peer, partitions, active=True)
        return apart | {f"with_controller_{key}": value for key, value in both.items()}

    return lab.alternate(CaseResult(name, title, facts), measure)


def shutdown(lab: Lab, name: str, title: str) -> CaseResult:
    """Stops a broker that leads all partitions by SIGTERM, while all of them are written to."""
    partitions = _partitions(lab)
    facts = {
        "partitions": f"{partitions:,}, led by the broker that stops",
        "measured": "from SIGTERM until another broker's Metadata has other leaders for all, and until the "
        "process has ended",
        "writes": "acks=all records to all partitions in turn by blocking sockets, which try again when a "
        "leader has moved; a record that is not acknowledged, or gets any other error, has failed",
    }

    def measure(peer: str) -> dict[str, float]:
        with lab.new_cluster(peer) as cluster:
            return _stop_one(cluster, partitions)

    return lab.alternate(CaseResult(name, title, facts), measure)


def _partitions(lab: Lab) -> int:
    return min(LED_PARTITIONS, lab.size.topics * lab.size.partitions_per_topic)


class Writer:
    """Writes to all partitions of a topic, each at its leader, by blocking sockets.

    Args:
        stack: Ends the sockets.
    """

    def __init__(self, cluster: MemberCluster, topic: str, stack: ExitStack):
        self._cluster = cluster
        self._topic = topic
        self._stack = stack
        self._batch = a_record(VALUE_BYTES)
        self._connections: dict[int, Connection] = {}
        self.failures: dict[int, str] = {}

    def write_all(self, partitions: int) -> list[float]:
        """Writes a record to each; returns the seconds until each was acknowledged, in that order.

        Raises:
            PeerError: Not all were acknowledged in time.
        """
        began = time.monotonic()
        waiting = set(range(partitions))
        seconds: list[float] = []
        while waiting:
            for leader, led in self._by_leader(waiting).items():
                done = self._write(leader, led)
                waiting -= done
                seconds += [time.monotonic() - began] * len(done)
            if waiting:
                if time.monotonic() - began > WRITES_TIMEOUT_SECONDS:
                    raise PeerError(f"{len(waiting)} of {partitions} partitions took no record in time")
                time.sleep(RETRY_SECONDS)
        return seconds

    def _by_leader(self, waiting: set[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for node in self._cluster.nodes:
            try:
                if (connection := self._connection(node)) is None:
                    continue
                state = connection.topics([self._topic])[self._topic]
            except (OSError, WireError):
                self._connections.pop(node, None)
                continue
            for partition, leader in enumerate(state.leaders):
                if partition in waiting and leader == node:
                    found.setdefault(leader, []).append(partition)
        return found

    def _connection(self, node: int) -> Connection | None:
        if node not in self._connections:
            broker = self._cluster.nodes[node]
            if not broker.alive:
                return None
            self._connections[node] = self._stack.enter_context(Connection(broker.host, broker.port))
        return self._connections[node]

    def _write(self, leader: int, partitions: list[int]) -> set[int]:
        try:
            connection = self._connection(leader)
            errors = connection.produce_each(self._topic, partitions, self._batch) if connection else {}
        except OSError:  # it has just ended: clients write to the next leader
            self._connections.pop(leader, None)
            return set()
        for partition, error in errors.items():
            if error != Errors.NONE.code and error not in PASSING:
                self.failures[partition] = Errors.of(error).name
        return {partition for partition, error in errors.items() if error == Errors.NONE.code}


def _kill_one(lab: Lab, peer: str, partitions: int, *, active: bool) -> dict[str, float]:
    with lab.new_cluster(peer, SESSIONS) as cluster, ExitStack() as stack:
        with cluster.connect() as connection:
            controller = connection.active_controller()
        victim = controller if active else next(id for id in cluster.nodes if id != controller)
        topic = new_topic(cluster, partitions, leader=victim)
        writer = Writer(cluster, topic, stack)
        writer.write_all(partitions)
        time.sleep(lab.size.settle_seconds)
        cluster.nodes[victim].kill()
        seconds = writer.write_all(partitions)
        if writer.failures:
            raise PeerError(f"writes failed: {writer.failures}")
        return {"first_write_ms": seconds[0] * 1e3, "all_writes_ms": seconds[-1] * 1e3}


@contextmanager
def _writing(cluster: MemberCluster, topic: str, partitions: int) -> Iterator[tuple[Writer, list[float]]]:
    """Writes to all partitions repeatedly on a thread; yields the slowest of each turn, in seconds."""
    ended = threading.Event()
    slowest: list[float] = []
    failures: list[Exception] = []
    with ExitStack() as stack:
        writer = Writer(cluster, topic, stack)

        def run() -> None:
            try:
                while not ended.is_set():
                    slowest.append(writer.write_all(partitions)[-1])
            except (PeerError, OSError, WireError) as error:
                failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield writer, slowest
        finally:
            ended.set()
            thread.join()
    if failures:
        raise failures[0]


def _stop_one(cluster: MemberCluster, partitions: int) -> dict[str, float]:
    with cluster.connect() as connection:
        controller = connection.active_controller()
    victim = next(id for id in cluster.nodes if id != controller)
    topic = new_topic(cluster, partitions, leader=victim)
    with _writing(cluster, topic, partitions) as (writer, slowest):
        wait_for(lambda: len(slowest) > 2, "writes", WRITES_TIMEOUT_SECONDS)
        quiet = max(slowest)
        began = time.monotonic()
        ending = threading.Thread(target=cluster.nodes[victim].stop, daemon=True)
        other = next(node for id, node in cluster.nodes.items() if id != victim)
        with other.connect() as connection:
            ending.start()
            wait_for(
                lambda: not {victim, -1} & set(connection.topics([topic])[topic].leaders),
                "other leaders",
                WRITES_TIMEOUT_SECONDS,
            )
            moved = time.monotonic() - began
        ending.join()
        if not cluster.nodes[victim].stop_seconds:
            raise PeerError(f"broker {victim} did not stop:\n{cluster.nodes[victim].log_tail()}")
        turns = len(slowest)
        wait_for(lambda: len(slowest) > turns + 1, "writes", WRITES_TIMEOUT_SECONDS)
    return {
        "leaders_moved_ms": moved * 1e3,
        "stopped_ms": cluster.nodes[victim].stop_seconds * 1e3,
        "slowest_turn_ms": max(slowest) * 1e3,
        "slowest_turn_before_ms": quiet * 1e3,
        "failed_writes": float(len(writer.failures)),
    }
