"""Provides brokers side by side, warm JVMs, and alternating rounds for the cases."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.limits.catalogue import Limit
from bench.limits.loops import LoopResult, run_loop
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.kafka import Kafka
from bench.peers.members import MemberCluster
from bench.peers.peer import HOST, Peer
from bench.peers.secured_settings import Security
from bench.peers.toolhost import ToolHost
from bench.peers.wire import WireError, wait_for_partitions
from bench.procfs import machine_cpu_seconds
from bench.results import CaseResult, Failure, Sample
from bench.sizes import Size
from bench.warm_memory import WarmMemory

PEER_CLASSES: dict[str, type[Peer]] = {Kafka.name: Kafka, Bowstring.name: Bowstring}
RECORD_BYTES = 100
# As in the 2014 test of Kafka, whose figures these are compared with.
PARTITIONS = 6
CALM_TIMEOUT_SECONDS = 15.0
CALM_CHECK_SECONDS = 0.25
CALM_CORES = 0.2

# Expected failures of a broker or a tool; any other exception is a bug of the bench and ends the run.
EXPECTED_FAILURES = (PeerError, WireError, OSError)


class Lab:
    """Owns the brokers' directories and the JVMs; everything it started ends with its `with` block.

    Args:
        work: an empty directory that may be filled with some 20 GB in a short run.
        size: the amounts of the run.
    """

    def __init__(self, work: Path, size: Size):
        self.work = work
        self.size = size
        self._peers: dict[str, Peer] = {}
        self._hosts: list[ToolHost] = []
        self._numbers = itertools.count(1)
        self._memory = WarmMemory(work / "memory")

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for host in self._hosts:
            host.close()
        for peer in self._peers.values():
            peer.kill()
        self._memory.give_back()

    def new_peer(self, name: str, settings: Mapping[str, str] | None = None) -> Peer:
        """Returns a broker in a fresh directory, not started; the caller stops it. `settings` win."""
        peer = PEER_CLASSES[name](self.work / f"{name}-{next(self._numbers)}")
        peer.settings = dict(settings or {})
        return peer

    def new_cluster(
        self, name: str, settings: Mapping[str, str] | None = None, security: Security | None = None
    ) -> MemberCluster:
        """Returns three brokers in fresh directories, not started; the caller ends them."""
        work = self.work / f"{name}-cluster-{next(self._numbers)}"
        return MemberCluster(name, work, settings, security=security)

    def peer(self, name: str) -> Peer:
        """Returns the broker of this name that serves the load cases; started on first use, or after it has
        ended.

        Raises:
            PeerError: it does not start.
        """
        peer = self._peers.get(name)
        if peer is not None and peer.alive:
            return peer
        peer = self._peers[name] = self.new_peer(name)
        peer.start()
        return peer

    def stop_peers(self) -> None:
        """Stops the brokers of the load cases."""
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            try:
                peer.stop()
            except PeerError as error:
                log(f"{peer.name}: {error}")

    def hosts(self, count: int) -> list[ToolHost]:
        """Returns `count` warm JVMs; the same ones at every call, except dead ones."""
        self._hosts = [host for host in self._hosts if host.alive]
        while len(self._hosts) < count:
            self._hosts.append(ToolHost(self.work / "tools", f"jvm-{next(self._numbers)}"))
        return self._hosts[:count]

    def new_topic(
        self, peer: Peer, partitions: int = PARTITIONS, configs: Mapping[str, str] | None = None
    ) -> str:
        """Creates a topic with a new name and waits until its partitions have leaders."""
        topic = f"bench-{next(self._numbers)}"
        with peer.connect() as connection:
            connection.create_topics([topic], partitions, configs)
        wait_for_partitions(HOST, peer.port, partitions, time.monotonic() + 30 + partitions / 50, [topic])
        return topic

    def delete_topic(self, peer: Peer, topic: str) -> None:
        """Deletes a topic; its files follow a second later."""
        with peer.connect() as connection:
            connection.delete_topics([topic])

    def alternate(
        self,
        case: CaseResult,
        measure: Callable[[str], dict[str, float]],
        rounds: int | None = None,
        peers: tuple[str, ...] | None = None,
        limits: Sequence[Limit] = (),
    ) -> CaseResult:
        """Measures each peer (of `peers`, if given) and each bare loop of `limits` once a round, A B C A B C.

        A peer that fails is left out of the case's later rounds; its failure is kept.
        """
        case.limits = [limit.name for limit in limits]
        loops = {limit.name: limit for limit in limits}
        names = [name for name in self.size.peers if peers is None or name in peers]
        for number in range(1, (rounds or self.size.rounds) + 1):
            for name in [*names, *loops]:
                if case.failure(name) is not None:
                    continue
                if self.size.warm_memory:
                    self._memory.fill()
                busy_cores = wait_until_calm()
                try:
                    if name in loops:
                        values = loops[name].measure(self.size.loop_mib, self._run_loop)
                    else:
                        values = measure(name)
                except EXPECTED_FAILURES as error:
                    message = self._clean_up_after(name, error)
                    case.failures.append(Failure(name, number, message))
                    log(f"{case.name} {number} {name}: FAILED {message}")
                else:
                    case.samples.append(Sample(name, number, values, busy_cores))
                    figures = " ".join(f"{key}={value:.4g}" for key, value in values.items())
                    log(f"{case.name} {number} {name}: {figures}")
        return case

    def _run_loop(self, loop: str, options: Mapping[str, int]) -> LoopResult:
        return run_loop(loop, options, self.work / "loops")

    def _clean_up_after(self, name: str, error: Exception) -> str:
        """Ends processes of a failed round; returns the failure's message, with the log of a dead
        broker.
        """
        for host in self._hosts:
            if host.busy:
                host.close()
        message = f"{type(error).__name__}: {error}"
        peer = self._peers.get(name)
        if peer is not None and not peer.alive:
            message += f"\n{name} is dead; its log ends:\n{peer.log_tail()}"
        return message


def wait_until_calm() -> float:
    """Writes dirty pages to disk, then waits until the machine is mostly idle, CALM_TIMEOUT_SECONDS at most.

    Returns:
        The number of busy cores at the end of the wait; below CALM_CORES unless others use the machine.
    """
    os.sync()
    deadline = time.monotonic() + CALM_TIMEOUT_SECONDS
    busy_cores = 0.0
    while time.monotonic() < deadline:
        before, _ = machine_cpu_seconds()
        time.sleep(CALM_CHECK_SECONDS)
        after, _ = machine_cpu_seconds()
        busy_cores = (after - before) / CALM_CHECK_SECONDS
        if busy_cores < CALM_CORES:
            break
    return busy_cores


def log(line: str) -> None:
    """Prints progress to standard error; results go to the report."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)
