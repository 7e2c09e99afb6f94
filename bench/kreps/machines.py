"""Runs brokers and loads on machines: this one, and others through an agent (see bench.kreps.remote)."""

from __future__ import annotations

import itertools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench import machine
from bench.cases.cold import evict
from bench.kreps.loads import Client, JavaLoad, Load, Order, ProcessLoad
from bench.kreps.replicas import ReplicaFacts, replicas_in
from bench.lab import wait_until_calm
from bench.limits.loops import LoopResult, StoredLoop, run_loop
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError, java_version
from bench.peers.kafka import Kafka
from bench.peers.members import Membership, member
from bench.peers.peer import HOST, Peer, free_ports
from bench.peers.toolhost import ToolHost
from bench.procfs import cpu_seconds, memory
from bench.warm_memory import WarmMemory


@dataclass(frozen=True)
class BrokerOrder:
    """A broker to start.

    Attributes:
        name: Whose: bowstring or kafka.
        node: Its id, from 1.
        address: The address it listens on and advertises.
        quorum: (node, address, broker port, controller port) of every broker; empty for a lone one.
        cluster_id: Of the quorum.
    """

    name: str
    node: int
    address: str
    quorum: tuple[tuple[int, str, int, int], ...] = ()
    cluster_id: str = ""

    @property
    def key(self) -> str:
        """Its name among the brokers of a machine."""
        return f"{self.name}-{len(self.quorum) or 1}-{self.node}"


class Machine(ABC):
    """A machine that runs brokers and loads. Brokers are named by their order's key.

    Attributes:
        name: Name in reports.
        address: Address at which the other machines reach it.
    """

    name: str
    address: str

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """See bench.machine.facts."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Returns the free bytes of the brokers' disk."""

    @abstractmethod
    def free_ports(self, count: int) -> list[int]:
        """Returns free ports of `address`."""

    @abstractmethod
    def prepare(self, order: BrokerOrder) -> int:
        """Prepares a broker for launch; returns its port.

        Raises:
            PeerError: something is not installed; the message says what.
        """

    @abstractmethod
    def launch(self, key: str) -> None:
        """Starts a broker's process."""

    @abstractmethod
    def await_ready(self, key: str) -> str:
        """Waits until a broker answers; returns its version."""

    @abstractmethod
    def kill(self, key: str) -> None:
        """Ends a broker and removes its records."""

    @abstractmethod
    def usage(self, key: str) -> tuple[float, int]:
        """(CPU-seconds since its start, resident bytes now) of a broker."""

    @abstractmethod
    def evict(self, key: str, topic: str) -> None:
        """Drops a topic's files from memory."""

    @abstractmethod
    def replicas(self, key: str, topic: str) -> dict[int, ReplicaFacts]:
        """Returns the facts of a broker's replicas by partition, see bench.kreps.replicas."""

    @abstractmethod
    def settle(self, *, fill_memory: bool) -> None:
        """Waits until the machine is mostly idle; with `fill_memory` fills memory first
        (bench.warm_memory).
        """

    @abstractmethod
    def begin(self, client: Client, order: Order) -> Load:
        """Creates a load, which waits to be started."""

    @abstractmethod
    def run_loop(self, loop: str, options: Mapping[str, int]) -> LoopResult:
        """Runs a bare loop on the brokers' disk, see bench.limits.loops.run_loop."""

    @abstractmethod
    def stored_step(self, key: str, options: Mapping[str, int], mib: int) -> LoopResult:
        """Lets the bare loop `stored` of that key append; the first call starts it with the options."""

    @abstractmethod
    def stored_end(self, key: str) -> None:
        """Ends that loop, if there is one, and removes its files."""

    @abstractmethod
    def close(self) -> None:
        """Ends everything that was started."""


class Here(Machine):
    """The machine this process runs on.

    Args:
        work: A directory with room for records and logs.
        address: One of its own.
    """

    name: str = "here"
    PEERS: ClassVar[dict[str, type[Peer]]] = {Bowstring.name: Bowstring, Kafka.name: Kafka}

    def __init__(self, work: Path, address: str = HOST):
        self.address = address
        self._work = work
        self._peers: dict[str, Peer] = {}
        self._idle_hosts: list[ToolHost] = []
        self._loads: list[Load] = []
        self._stored: dict[str, StoredLoop] = {}
        self._numbers = itertools.count(1)
        self._memory = WarmMemory(work / "memory")

    def facts(self) -> dict[str, str]:
        """See Machine."""
        return machine.facts()

    def free_bytes(self) -> int:
        """See Machine."""
        return shutil.disk_usage(self._work).free

    def free_ports(self, count: int) -> list[int]:
        """See Machine."""
        return free_ports(count, self.address)

    def prepare(self, order: BrokerOrder) -> int:
        """See Machine."""
        if order.name == Kafka.name:
            java_version()  # says what to install
        work = self._work / order.key
        if order.quorum:
            peer = member(order.name, work, Membership(order.node, order.quorum, order.cluster_id))
        else:
            peer = self.PEERS[order.name](work)
        peer.host = order.address
        peer.prepare()
        self._peers[order.key] = peer
        return peer.port

    def launch(self, key: str) -> None:
        """See Machine."""
        self._peers[key].launch()

    def await_ready(self, key: str) -> str:
        """See Machine."""
        self._peers[key].await_ready()
        return self._peers[key].version()

    def kill(self, key: str) -> None:
        """See Machine."""
        if peer := self._peers.pop(key, None):
            peer.kill()
            shutil.rmtree(peer.work)

    def usage(self, key: str) -> tuple[float, int]:
        """See Machine."""
        peer = self._peers[key]
        if not peer.alive:
            raise PeerError(f"{peer.name} has ended; its log ends:\n{peer.log_tail()}")
        return cpu_seconds(peer.pid), memory(peer.pid).rss_bytes

    def evict(self, key: str, topic: str) -> None:
        """See Machine."""
        evict(self._peers[key], topic)

    def replicas(self, key: str, topic: str) -> dict[int, ReplicaFacts]:
        """See Machine."""
        return replicas_in(self._peers[key].data, topic)

    def settle(self, *, fill_memory: bool) -> None:
        """See Machine."""
        if fill_memory:
            self._memory.fill()
        wait_until_calm()

    def begin(self, client: Client, order: Order) -> Load:
        """See Machine."""
        load = self._java(order) if client == "java" else ProcessLoad(client, order)
        self._loads = [*self._loads[-1_000:], load]
        return load

    def run_loop(self, loop: str, options: Mapping[str, int]) -> LoopResult:
        """See Machine."""
        return run_loop(loop, options, self._work / "loops")

    def stored_step(self, key: str, options: Mapping[str, int], mib: int) -> LoopResult:
        """See Machine."""
        if key not in self._stored:
            self._stored[key] = StoredLoop(options, self._work / f"stored-{key}")
        return self._stored[key].step(mib)

    def stored_end(self, key: str) -> None:
        """See Machine."""
        if loop := self._stored.pop(key, None):
            loop.close()

    def _java(self, order: Order) -> JavaLoad:
        self._idle_hosts = [host for host in self._idle_hosts if host.alive]
        if not self._idle_hosts:
            java_version()  # says what to install
            self._idle_hosts.append(ToolHost(self._work / "tools", f"jvm-{next(self._numbers)}"))
        host = self._idle_hosts.pop()
        return JavaLoad(host, order, lambda: self._idle_hosts.append(host))

    def close(self) -> None:
        """See Machine."""
        for load in self._loads:
            load.kill()
        for host in self._idle_hosts:
            host.close()
        for key in list(self._peers):
            self.kill(key)
        for key in list(self._stored):
            self.stored_end(key)
        self._memory.give_back()
