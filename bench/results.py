"""Holds the results of the cases: every sample of every round, and every failure."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One peer's figures in one round; each name ends in its unit.

    `busy_cores_before` is what the rest of the machine used when the round began.
    """

    peer: str
    round: int
    values: dict[str, float]
    busy_cores_before: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A peer that could not finish a case, and the reason."""

    peer: str
    round: int
    message: str


@dataclass
class CaseResult:
    """One case over all rounds.

    Attributes:
        name: key of the case in report.json and in the table of bars.
        title: one line for people.
        settings: the settings of the case, so that it can be repeated.
        limits: names of the bare loops among the peers; ratios are to the first.
    """

    name: str
    title: str
    settings: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    def values(self, peer: str, metric: str) -> list[float]:
        """`metric` of `peer`, round by round; empty when it was not measured."""
        return [s.values[metric] for s in self.samples if s.peer == peer and metric in s.values]

    def median(self, peer: str, metric: str) -> float | None:
        """Median over the rounds, None when there is none."""
        values = self.values(peer, metric)
        return statistics.median(values) if values else None

    def limit(self, metric: str) -> float | None:
        """Median of the first bare loop that has the metric."""
        medians = (self.median(name, metric) for name in self.limits)
        return next((median for median in medians if median is not None), None)

    def failure(self, peer: str) -> Failure | None:
        """The first failure of `peer`, if any."""
        return next((failure for failure in self.failures if failure.peer == peer), None)

    def metrics(self) -> list[str]:
        """Names of all figures, in the order in which they first appear."""
        return list(dict.fromkeys(name for sample in self.samples for name in sample.values))

    def to_json(self) -> dict[str, Any]:
        """Plain values for report.json."""
        return asdict(self)


@dataclass
class Run:
    """One run of the bench: machine, revision, and all results."""

    size: str
    started: str
    machine: dict[str, str]
    peers: dict[str, str]
    cases: dict[str, CaseResult] = field(default_factory=dict)
    duration_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values for report.json."""
        return asdict(self)
