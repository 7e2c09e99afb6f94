"""Runs everything: clusters in turn, A B A B, with progress, and returns the results as plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.kreps.brokers import Cluster
from bench.kreps.catalogue import RECORD_BYTES, Test
from bench.kreps.limits import limit_of, mib_of
from bench.kreps.loads import Client
from bench.kreps.machines import Machine
from bench.kreps.measure import Measured, Measurer, Snapshot, SweepError
from bench.kreps.results import Outcome, Result
from bench.lab import EXPECTED_FAILURES
from bench.peers.install import PeerError

NO_BROKERS = "it needs 3 replicas, but the cluster has {} (--brokers 3)"
# Disk bytes of a record besides its value, and bytes that brokers write besides records.
RECORD_OVERHEAD_BYTES = 12
REPLICATION_MAX = 3
BROKER_OVERHEAD_BYTES = 500_000_000


@dataclass
class Plan:
    """The plan of a run.

    Attributes:
        peers: in turn order.
        brokers: of a cluster, for the tests that require replicas.
        rounds: of each test, after the warm-up.
        records: of a test with share 1.
        stored_bytes: of the test of stored data.
        settle: wait before each measurement until the machines are mostly idle.
        fill_memory: fill memory before each round, see bench.warm_memory.
        loops: run the bare loop of a test in each round, see bench.limits.
    """

    tests: list[Test]
    peers: list[str]
    client: Client
    brokers: int = 1
    rounds: int = 3
    records: int = 20_000_000
    warm_up_seconds: float = 30.0
    stored_bytes: int = 10_000_000_000
    settle: bool = True
    fill_memory: bool = True
    loops: bool = True
    options: dict[str, str] = field(default_factory=dict)

    def cluster_size(self, test: Test) -> int:
        """Returns the number of brokers of a test."""
        return self.brokers if test.replication > 1 else 1

    def disk_bytes(self) -> int:
        """Returns the most bytes that the brokers of one machine have on disk at once.

        Deleted topics leave the disk a second or so later, so those of two rounds may exist at once.
        """
        most = 0.0
        for test in self.tests:
            records = self.records * test.share * max(1, test.producers)
            if test.kind == "stored":
                records = self.stored_bytes / RECORD_BYTES
            rounds = 1 if test.kind == "stored" and len(self.peers) * self.rounds == 1 else 2
            needed = rounds * records * test.replication * (RECORD_BYTES + RECORD_OVERHEAD_BYTES)
            if self.loops and test.kind == "stored":
                needed += self.stored_bytes
            most = max(most, needed)
        return int(most) + BROKER_OVERHEAD_BYTES * len(self.peers) * self.brokers


@dataclass
class Sites:
    """The machines of a run: one for everything, or some for brokers and others for loads."""

    brokers: list[Machine]
    loads: list[Machine]

    def facts(self) -> dict[str, dict[str, str]]:
        """Returns the facts by role, without names."""
        if self.brokers == self.loads:
            return {"brokers and clients": self.brokers[0].facts()}
        named = [(f"broker {n}", each) for n, each in enumerate(self.brokers, 1)]
        named += [(f"load {n}", each) for n, each in enumerate(self.loads, 1) if each not in self.brokers]
        return {name: each.facts() for name, each in named}

    def close(self) -> None:
        """Ends everything on all of them."""
        for each in dict.fromkeys([*self.brokers, *self.loads]):
            each.close()


# (test, peer, round, progress) while something runs; None when a round begins.
Progress = Callable[[Test, str, int, Snapshot | None], None]


def check_disk(plan: Plan, sites: Sites) -> None:
    """Checks the disk space before hours are spent.

    Raises:
        PeerError: the brokers' records do not fit; the message says what is needed.
    """
    needed = plan.disk_bytes()
    for machine in sites.brokers:
        free = machine.free_bytes()
        if free < needed:
            raise PeerError(
                f"the run needs {needed / 1e9:.1f} GB of disk on {machine.name}, which has {free / 1e9:.1f} "
                "GB: name a larger disk (--work, --remote-work) or do less (--records, --stored-gb)"
            )


def run(plan: Plan, sites: Sites, progress: Progress, keep: Callable[[Result], object]) -> Result:
    """Runs every test of the plan on every peer; clusters of one size take turns.

    Args:
        keep: called with the result so far after each round.

    Returns:
        The results, also when Ctrl-C ended the run.

    Raises:
        PeerError: the disk is too small.
    """
    began = time.monotonic()
    check_disk(plan, sites)
    result = Result(
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        sites.facts(),
        {},
        plan.client,
        plan.brokers,
        plan.records,
        plan.tests,
        {test.name: {peer: Outcome() for peer in plan.peers} for test in plan.tests},
        plan.options,
    )

    def kept() -> None:
        result.duration_seconds = time.monotonic() - began
        keep(result)

    try:
        for brokers in sorted({plan.cluster_size(test) for test in plan.tests}):
            tests = [test for test in plan.tests if plan.cluster_size(test) == brokers]
            _run_on(plan, tests, brokers, sites, result, progress, kept)
    except KeyboardInterrupt:
        result.interrupted = True
    result.duration_seconds = time.monotonic() - began
    return result


def why_not(test: Test, brokers: int) -> str:
    """Returns why a test is not run on a cluster of so many brokers; "" when it is."""
    return NO_BROKERS.format(brokers) if test.replication > brokers else ""


def _run_on(
    plan: Plan,
    tests: list[Test],
    brokers: int,
    sites: Sites,
    result: Result,
    progress: Progress,
    kept: Callable[[], None],
) -> None:
    peers = []
    for peer in plan.peers:
        for test in tests:
            result.outcomes[test.name][peer].skipped = why_not(test, brokers)
        if any(not result.outcomes[test.name][peer].skipped for test in tests):
            peers.append(peer)
    clients = max(max(test.producers, test.consumers) for test in tests)
    failures: dict[str, str] = {}
    with _measurers(plan, peers, brokers, sites, failures) as measurers:
        for name, measurer in list(measurers.items()):
            result.versions[name] = measurer.cluster.version
            try:
                measurer.warm_up(plan.warm_up_seconds, clients)
            except EXPECTED_FAILURES as error:
                failures[name] = f"warm-up: {type(error).__name__}: {error}"
                del measurers[name]
        for name, failure in failures.items():
            for test in tests:
                result.outcomes[test.name][name].failure = failure
        for test in tests:
            for number in range(1, plan.rounds + 1):
                for name, measurer in measurers.items():
                    outcome = result.outcomes[test.name][name]
                    if not outcome.failure and not outcome.skipped:
                        _one(test, name, number, measurer, outcome, progress)
                        kept()
                if measurers and plan.loops:
                    _loop(plan, test, sites.brokers[0], result)
                    kept()


def _one(
    test: Test, peer: str, number: int, measurer: Measurer, outcome: Outcome, progress: Progress
) -> None:
    measurer.watch = lambda snapshot: progress(test, peer, number, snapshot)
    progress(test, peer, number, None)
    try:
        outcome.rounds.append(measurer.measure(test))
    except SweepError as error:
        outcome.rounds.append(error.found)
        outcome.failure = str(error)
    except EXPECTED_FAILURES as error:
        outcome.failure = f"{type(error).__name__}: {error}"


def _loop(plan: Plan, test: Test, machine: Machine, result: Result) -> None:
    """Runs the bare loop of a test once, if it has one."""
    limit = limit_of(test)
    if limit is None:
        return
    outcome = result.loops.setdefault(test.name, Outcome())
    if outcome.failure:
        return
    try:
        if plan.settle:
            machine.settle(fill_memory=plan.fill_memory)
        outcome.rounds.append(Measured(limit.measure(mib_of(test, plan.records), machine.run_loop)))
    except EXPECTED_FAILURES as error:
        outcome.failure = f"{type(error).__name__}: {error}"


@contextmanager
def _measurers(
    plan: Plan, peers: list[str], brokers: int, sites: Sites, failures: dict[str, str]
) -> Iterator[dict[str, Measurer]]:
    """Yields started clusters by name, each with its clients; all end with the block. `failures` gets the
    reasons of those that do not start.
    """
    started: list[Cluster] = []
    measurers: dict[str, Measurer] = {}
    try:
        for peer in peers:
            try:
                cluster = Cluster(peer, brokers, sites.brokers)
                started.append(cluster)
                cluster.start()
            except EXPECTED_FAILURES as error:
                failures[peer] = f"{type(error).__name__}: {error}"
                continue
            measurers[peer] = Measurer(
                cluster,
                sites.loads,
                plan.client,
                plan.records,
                stored_bytes=plan.stored_bytes,
                settle=plan.settle,
                fill_memory=plan.fill_memory,
                loops=plan.loops,
                replication=min(brokers, REPLICATION_MAX),
            )
        yield measurers
    finally:
        for cluster in started:
            try:
                cluster.stop()
            except PeerError as error:
                failures[cluster.name] = str(error)  # machine unreachable; its agent ends the brokers
