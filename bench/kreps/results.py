"""Holds the results of a run as plain data that can be written, read and merged."""

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
        failure: why a round failed; later rounds are skipped.
    """

    rounds: list[Measured] = field(default_factory=list)
    skipped: str = ""
    failure: str = ""

    def values(self, metric: str) -> list[float]:
        """Returns a figure, round by round."""
        return [each.values[metric] for each in self.rounds if metric in each.values]

    def median(self, metric: str) -> float | None:
        """Returns the median over the rounds; None when there is none."""
        found = self.values(metric)
        return statistics.median(found) if found else None

    def points(self, metric: str) -> list[tuple[float, float]]:
        """Returns the points of a sweep: (x, median over the rounds)."""
        by_x: dict[float, list[float]] = {}
        for each in self.rounds:
            for point in each.points:
                if metric in point:
                    by_x.setdefault(point["x"], []).append(point[metric])
        return [(x, statistics.median(found)) for x, found in sorted(by_x.items())]

    def ratios(self, metric: str, other: str) -> list[tuple[float, float]]:
        """Returns the ratio of two figures at each point that has both: (x, median over the rounds)."""
        by_x: dict[float, list[float]] = {}
        for each in self.rounds:
            for point in each.points:
                if metric in point and point.get(other):
                    by_x.setdefault(point["x"], []).append(point[metric] / point[other])
        return [(x, statistics.median(found)) for x, found in sorted(by_x.items())]


@dataclass
class Result:
    """A run, complete or interrupted.

    Attributes:
        machines: facts of each, by what it does: "brokers and clients", or "broker 1", "load 1", …
        options: of the command line.
        outcomes: by test and peer.
        loops: of the bare loop beside a test, by test.
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
    loops: dict[str, Outcome] = field(default_factory=dict)

    @property
    def one_machine(self) -> bool:
        """Whether brokers and clients shared one."""
        return len(self.machines) == 1

    def to_json(self) -> dict[str, Any]:
        """Converts to plain values."""
        return asdict(self)


def from_json(found: dict[str, Any]) -> Result:
    """Reverses `to_json`.

    Raises:
        PeerError: the data is of another version of the bench.
    """
    try:
        tests = [
            Test(**each | {name: tuple(each[name] or ()) for name in ("figure_2014", "values", "bar")})
            for each in found["tests"]
        ]
        outcomes = {
            test: {peer: _outcome(outcome) for peer, outcome in by_peer.items()}
            for test, by_peer in found["outcomes"].items()
        }
        loops = {test: _outcome(outcome) for test, outcome in found.get("loops", {}).items()}
        return Result(**found | {"tests": tests, "outcomes": outcomes, "loops": loops})
    except (KeyError, TypeError) as error:
        raise PeerError(f"a report.json of another version of the bench: {error}") from error


def _outcome(found: dict[str, Any]) -> Outcome:
    return Outcome([Measured(**each) for each in found["rounds"]], found["skipped"], found["failure"])


def merge(results: list[Result]) -> Result:
    """Merges separate runs into one: their tests, their peers, and the rounds of both if they share them.

    Raises:
        PeerError: the runs used different clients, numbers of records or machines, and cannot be compared.
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
                _add(mine.setdefault(peer, Outcome()), outcome)
        for test, outcome in other.loops.items():
            _add(whole.loops.setdefault(test, Outcome()), outcome)
    return whole


def _add(kept: Outcome, more: Outcome) -> None:
    kept.rounds += more.rounds
    kept.failure = kept.failure or more.failure
    kept.skipped = "" if kept.rounds else kept.skipped or more.skipped
