"""The whole run: clusters in turn, A B A B, with progress, and what came of it as plain data."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import machine
from bench.kreps.brokers import LocalCluster, local_cluster
from bench.kreps.catalogue import Test
from bench.kreps.loads import Client
from bench.kreps.measure import Measured, Measurer
from bench.peers.install import PeerError
from bench.peers.wire import WireError
from bench.warm_memory import WarmMemory

NO_REPLICATION = "one broker: Bowstring has no replication yet"
EXPECTED = (PeerError, WireError, OSError)
# (test, peer, round, records so far of each load) while something runs.
Progress = Callable[[Test, str, int, list[int]], None]


@dataclass
class Plan:
    """What is to be run.

    Attributes:
        peers: in turn order.
        brokers: of a cluster, for the tests that ask for replicas.
        rounds: of each test, after the warm-up.
        records: of a test with share 1.
        stored_bytes: of the test of stored data.
        warm_memory: fill memory before each test, see bench.warm_memory.
    """

    tests: list[Test]
    peers: list[str]
    client: Client
    brokers: int = 1
    rounds: int = 3
    records: int = 20_000_000
    warm_up_seconds: float = 30.0
    stored_bytes: int = 10_000_000_000
    warm_memory: bool = True


@dataclass
class Outcome:
    """All rounds of one test on one peer.

    Attributes:
        skipped: why there are none.
        failure: what a round died of; later rounds are left out.
    """

    rounds: list[Measured] = field(default_factory=list)
    skipped: str = ""
    failure: str = ""

    def values(self, metric: str) -> list[float]:
        """A figure, round by round."""
        return [each.values[metric] for each in self.rounds if metric in each.values]

    def median(self, metric: str) -> float | None:
        """Over the rounds; None when there is none."""
        found = self.values(metric)
        return statistics.median(found) if found else None

    def points(self, metric: str) -> list[tuple[float, float]]:
        """Of a sweep: (x, median over the rounds)."""
        by_x: dict[float, list[float]] = {}
        for each in self.rounds:
            for point in each.points:
                if metric in point:
                    by_x.setdefault(point["x"], []).append(point[metric])
        return [(x, statistics.median(found)) for x, found in sorted(by_x.items())]


@dataclass
class Result:
    """A run, whole.

    Attributes:
        outcomes: by test and peer.
    """

    started: str
    machine: dict[str, str]
    versions: dict[str, str]
    client: Client
    brokers: int
    records: int
    tests: list[Test]
    outcomes: dict[str, dict[str, Outcome]]
    duration_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def run(plan: Plan, work: Path, progress: Progress) -> Result:
    """Runs every test of the plan on every peer; clusters of one size take turns."""
    began = time.monotonic()
    result = Result(
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        machine.facts(),
        {},
        plan.client,
        plan.brokers,
        plan.records,
        plan.tests,
        {test.name: {peer: Outcome() for peer in plan.peers} for test in plan.tests},
    )
    memory = WarmMemory(work / "memory") if plan.warm_memory else None
    try:
        for brokers in sorted({_brokers(test, plan) for test in plan.tests}):
            tests = [test for test in plan.tests if _brokers(test, plan) == brokers]
            _run_on(plan, tests, brokers, work / f"brokers-{brokers}", memory, result, progress)
    finally:
        if memory is not None:
            memory.give_back()
    result.duration_seconds = time.monotonic() - began
    return result


def _brokers(test: Test, plan: Plan) -> int:
    return plan.brokers if test.replication > 1 else 1


def _run_on(
    plan: Plan,
    tests: list[Test],
    brokers: int,
    work: Path,
    memory: WarmMemory | None,
    result: Result,
    progress: Progress,
) -> None:
    peers = []
    for peer in plan.peers:
        if any(test.replication > 1 for test in tests) and (peer == "bowstring" or brokers < 3):
            for test in tests:
                result.outcomes[test.name][peer].skipped = NO_REPLICATION
        else:
            peers.append(peer)
    if not peers:
        return
    failures: dict[str, str] = {}
    with _measurers(plan, peers, brokers, work, memory, failures) as measurers:
        for name, failure in failures.items():
            for test in tests:
                result.outcomes[test.name][name].failure = failure
        for name, measurer in measurers.items():
            result.versions[name] = measurer.cluster.version
            measurer.warm_up(plan.warm_up_seconds)
        for test in tests:
            for number in range(1, plan.rounds + 1):
                for name, measurer in measurers.items():
                    outcome = result.outcomes[test.name][name]
                    if not outcome.failure:
                        _one(test, name, number, measurer, outcome, progress)


def _one(
    test: Test, peer: str, number: int, measurer: Measurer, outcome: Outcome, progress: Progress
) -> None:
    measurer.watch = lambda records: progress(test, peer, number, records)
    progress(test, peer, number, [])
    try:
        outcome.rounds.append(measurer.measure(test))
    except EXPECTED as error:
        outcome.failure = f"{type(error).__name__}: {error}"


@contextmanager
def _measurers(
    plan: Plan,
    peers: list[str],
    brokers: int,
    work: Path,
    memory: WarmMemory | None,
    failures: dict[str, str],
) -> Iterator[dict[str, Measurer]]:
    """Started clusters by name, each with its clients; all end with the block. `failures` gets those that do
    not start, and why."""
    started: list[LocalCluster] = []
    measurers: dict[str, Measurer] = {}
    try:
        for peer in peers:
            work.mkdir(parents=True, exist_ok=True)
            cluster = local_cluster(peer, brokers, work)
            started.append(cluster)
            try:
                cluster.start()
            except EXPECTED as error:
                failures[peer] = f"{type(error).__name__}: {error}"
                continue
            measurers[peer] = Measurer(
                cluster, plan.client, plan.records, work, stored_bytes=plan.stored_bytes, memory=memory
            )
        yield measurers
    finally:
        for measurer in measurers.values():
            measurer.close()
        for cluster in started:
            for each in cluster.peers:
                each.kill()
