"""Starts clusters under measurement: one broker or several, on one machine or on others."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode

from bench.kreps.machines import BrokerOrder, Machine
from bench.peers.bowstring import Bowstring
from bench.peers.kafka import Kafka
from bench.peers.wire import Connection, TopicState


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

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def can_replicate(name: str) -> bool:
    """Returns whether topics of such a cluster may have several replicas."""
    return name != Bowstring.name


def _orders(name: str, machines: list[Machine]) -> list[BrokerOrder]:
    if len(machines) == 1:
        return [BrokerOrder(name, 1, machines[0].address)]
    assert name == Kafka.name, "Bowstring has no replication yet: a cluster of it is one broker"
    quorum = []
    # Requested at once, otherwise the same port could be returned twice.
    ports = {machine.address: iter(machine.free_ports(2 * len(machines))) for machine in set(machines)}
    for node, machine in enumerate(machines, 1):
        quorum.append((node, machine.address, next(ports[machine.address]), next(ports[machine.address])))
    # An id that begins with a dash would be parsed as an option.
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    return [BrokerOrder(name, node, address, tuple(quorum), cluster_id) for node, address, _, _ in quorum]
