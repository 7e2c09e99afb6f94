"""What a run gave, as plain data that is written, read again and put together."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.kreps.catalogue import Test
from bench.kreps.loads import Client
from bench.kreps.measure import Measured
from bench.peers.install import PeerError


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
    """A run, whole or as far as it came.

    Attributes:
        machines: facts of each, by what it does: "brokers and clients", or "broker 1", "load 1", …
        options: of the command line, as they were.
        outcomes: by test and peer.
        interrupted: it was ended before its time.
    """

    started: str
    machines: dict[str, dict[str, str]]
    versions: dict[str, str]
    client: Client
    brokers: int
    records: int
    tests: list[Test]
    outcomes: dict[str, dict[str, Outcome]]
    options: dict[str, str] = field(default_factory=dict)
    duration_seconds: float = 0.0
    interrupted: bool = False

    @property
    def one_machine(self) -> bool:
        """Whether brokers and clients shared one."""
        return len(self.machines) == 1

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def from_json(found: dict[str, Any]) -> Result:
    """What `to_json` gave.

    Raises:
        PeerError: it is of another version of the bench.
    """
    try:
        tests = [
            Test(**each | {name: tuple(each[name] or ()) for name in ("figure_2014", "values", "bar")})
            for each in found["tests"]
        ]
        outcomes = {
            test: {
                peer: Outcome(
                    [Measured(**each) for each in outcome["rounds"]], outcome["skipped"], outcome["failure"]
                )
                for peer, outcome in by_peer.items()
            }
            for test, by_peer in found["outcomes"].items()
        }
        return Result(**found | {"tests": tests, "outcomes": outcomes})
    except (KeyError, TypeError) as error:
        raise PeerError(f"a report.json of another version of the bench: {error}") from error


def merge(results: list[Result]) -> Result:
    """Runs made apart as one: their tests, their peers, and the rounds of both where they share them.

    Raises:
        PeerError: they used different clients, numbers of records or machines, and cannot stand side by side.
    """
    first = results[0]
    whole = Result(**{name: getattr(first, name) for name in first.__dataclass_fields__})
    for other in results[1:]:
        for name in ("client", "records", "machines"):
            if getattr(other, name) != getattr(first, name):
                raise PeerError(
                    f"the runs differ in {name}: {getattr(first, name)} and {getattr(other, name)}"
                )
        whole.tests += [test for test in other.tests if test not in whole.tests]
        whole.versions |= other.versions
        whole.duration_seconds += other.duration_seconds
        whole.interrupted |= other.interrupted
        for test, by_peer in other.outcomes.items():
            mine = whole.outcomes.setdefault(test, {})
            for peer, outcome in by_peer.items():
                kept = mine.setdefault(peer, Outcome())
                kept.rounds += outcome.rounds
                kept.failure = kept.failure or outcome.failure
                kept.skipped = "" if kept.rounds else kept.skipped or outcome.skipped
    return whole
