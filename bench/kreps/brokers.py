"""Starts clusters under measurement: one broker or several, on one machine or on others."""

from __future__ import annotations

import time

from bench.kreps.machines import BrokerOrder, Machine
from bench.kreps.replicas import ReplicaFacts, difference
from bench.peers.install import PeerError
from bench.peers.members import memberships
from bench.peers.wire import Connection, TopicState, latest_offsets, wait_for_brokers

REGISTERED_SECONDS = 60.0
EQUAL_SECONDS = 120.0
# After it, a broker has written to its files what it kept in memory.
AT_REST_SECONDS = 1.0


class Cluster:
    """Brokers of one kind; `with` starts and ends them.

    Args:
        name: Name in results: bowstring or kafka.
        brokers: How many; they take the machines in turn.

    Attributes:
        version: Name and version, for the report; set after the start.
    """

    def __init__(self, name: str, brokers: int, machines: list[Machine]):
        self.name = name
        self.version = ""
        self.machines = machines
        on = [machines[number % len(machines)] for number in range(brokers)]
        self._brokers = list(zip(on, _orders(name, on), strict=True))
        self._ports: list[int] = []

    @property
    def bootstrap(self) -> str:
        """`host:port,…` for clients."""
        return ",".join(f"{address}:{port}" for address, port in self.listeners)

    def start(self) -> None:
        """Starts all brokers, then waits for all, because a quorum needs its members.

        Raises:
            PeerError: one does not start.
        """
        self._ports = [machine.prepare(order) for machine, order in self._brokers]
        for machine, order in self._brokers:
            machine.launch(order.key)
        for machine, order in self._brokers:
            self.version = machine.await_ready(order.key)
        wait_for_brokers(self.listeners, time.monotonic() + REGISTERED_SECONDS)

    def stop(self) -> None:
        """Ends every broker and removes its records."""
        for machine, order in self._brokers:
            machine.kill(order.key)

    def usage(self) -> tuple[float, int]:
        """Returns (CPU-seconds since their start, resident bytes now) of all brokers."""
        found = [machine.usage(order.key) for machine, order in self._brokers]
        return sum(cpu for cpu, _ in found), sum(rss for _, rss in found)

    def evict(self, topic: str) -> None:
        """Drops a topic's files from every machine's memory."""
        for machine, order in self._brokers:
            machine.evict(order.key, topic)

    @property
    def listeners(self) -> list[tuple[str, int]]:
        """Address and port of each broker, after the start."""
        return list(zip((order.address for _, order in self._brokers), self._ports, strict=True))

    def connect(self) -> Connection:
        """Opens a raw connection to the first broker."""
        return Connection(*self.listeners[0])

    def state(self, topic: str) -> TopicState:
        """Returns a topic's metadata from the first broker."""
        with self.connect() as connection:
            return connection.topics([topic])[topic]

    def committed(self, topic: str, partitions: int) -> int:
        """Returns the sum of a topic's high watermarks: what all replicas in sync have."""
        return sum(latest_offsets(self.listeners, topic, partitions).values())

    def check_replicas(self, topic: str, replication: int, records: int) -> int:
        """Waits until all replicas of a topic are on disk and equal.

        Args:
            replication: Replicas that each partition should have.
            records: Acknowledged ones.

        Returns:
            The number of records that are stored beyond those: what a retry has stored twice.

        Raises:
            PeerError: Replicas differ, or records are missing.
        """
        deadline = time.monotonic() + EQUAL_SECONDS
        time.sleep(AT_REST_SECONDS)
        while wrong := difference(found := self._replicas(topic), replication, records):
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name}'s replicas of {topic} are wrong: {wrong}")
            time.sleep(AT_REST_SECONDS)
        ends: dict[int, int] = {}
        for replicas in found.values():
            ends |= {partition: facts.end_offset for partition, facts in replicas.items()}
        return sum(ends.values()) - records

    def _replicas(self, topic: str) -> dict[str, dict[int, ReplicaFacts]]:
        return {order.key: machine.replicas(order.key, topic) for machine, order in self._brokers}

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def _orders(name: str, machines: list[Machine]) -> list[BrokerOrder]:
    if len(machines) == 1:
        return [BrokerOrder(name, 1, machines[0].address)]
    by_address = {machine.address: machine for machine in machines}
    places = memberships(
        [machine.address for machine in machines],
        lambda address, count: by_address[address].free_ports(count),
    )
    return [
        BrokerOrder(name, place.node, machine.address, place.quorum, place.cluster_id)
        for machine, place in zip(machines, places, strict=True)
    ]
