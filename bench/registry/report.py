"""Writes the report of a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import bowstring
from bench.report_files import compact

Figures = dict[str, dict[str, list[float]]]
"""Samples by figure and program."""
OURS, THEIRS = "bowstring", "karapace"


class Bar(NamedTuple):
    """What a figure must reach, by the medians.

    Attributes:
        least: of it; None: no such bound.
        most: of it.
        least_ratio: to Karapace's, where that was measured.
    """

    least: float | None = None
    most: float | None = None
    least_ratio: float | None = None

    def verdict(self, ours: float, theirs: float | None) -> str:
        """Returns the bar, and whether it is met."""
        if self.least_ratio is not None:
            if theirs is None:
                return f"≥ {self.least_ratio:g} ×"
            return f"≥ {self.least_ratio:g} ×: {_word(ours >= self.least_ratio * theirs)}"
        if self.least is not None:
            return f"≥ {self.least:,.0f}: {_word(ours >= self.least)}"
        assert self.most is not None
        return f"≤ {self.most:,g}: {_word(ours <= self.most)}"


def _word(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


TEN_TIMES = Bar(least_ratio=10)
STARTS_LATER = "registry and REST in the broker: start, s more"
TAKES_MORE = "registry and REST in the broker: idle memory, MiB more"
BARS = {
    "register a new schema, 1/s": TEN_TIMES,
    "look up by id, 1/s": TEN_TIMES,
    "check compatibility, 1/s": TEN_TIMES,
    "load 100,000 schemas, s": Bar(most=3),
    "memory with 100,000 schemas, MiB": Bar(most=300),
    "REST v2: produce JSON in tens, records/s": TEN_TIMES,
    "REST: produce stream, records/s": Bar(least=200_000),
    "REST: read format=ndjson, records/s": Bar(least=500_000),
    "REST: read format=arrow, records/s": Bar(least=500_000),
    STARTS_LATER: Bar(most=0.4),
    TAKES_MORE: Bar(most=60),
}
"""By the names of figures."""


def written(
    folder: Path, figures: Figures, machine: Mapping[str, str], settings: Mapping[str, object]
) -> None:
    """Writes report.md and report.json into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in settings.items() if isinstance(value, int | bool)}
    now = datetime.now(UTC)
    data = {"figures": figures, "machine": machine, "settings": kept, "time": now.isoformat()}
    (folder / "report.json").write_text(compact(data))
    lines = [
        f"# Schema registry and REST proxy, {now:%Y-%m-%d}",
        "",
        f"`python -m bench.registry`, Bowstring {bowstring.__version__}; programs in turn on one broker.",
        "A figure is the median of its rounds, with the least and the greatest in brackets.",
        "",
        "| fact | value |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in machine.items()),
        *(f"| {name} | {value:,} |" for name, value in kept.items() if not isinstance(value, bool)),
        "",
        "| figure | Karapace | Bowstring | Bowstring / Karapace | bar |",
        "| --- | --- | --- | --- | --- |",
        *(figure_line(name, samples) for name, samples in figures.items()),
    ]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def figure_line(name: str, samples: Mapping[str, list[float]]) -> str:
    """Returns the row of a figure."""
    ours, theirs = samples.get(OURS), samples.get(THEIRS)
    ratio = f"{statistics.median(ours) / statistics.median(theirs):,.3g}" if ours and theirs else "–"
    return f"| {name} | {_cell(theirs)} | {_cell(ours)} | {ratio} | {_verdict(name, ours, theirs)} |"


def _verdict(name: str, ours: list[float] | None, theirs: list[float] | None) -> str:
    bar = BARS.get(name)
    if bar is None or not ours:
        return ""
    return bar.verdict(statistics.median(ours), statistics.median(theirs) if theirs else None)


def _cell(samples: list[float] | None) -> str:
    if not samples:
        return "–"
    median = (
        f"{statistics.median(samples):,.4g}" if max(samples) < 1000 else f"{statistics.median(samples):,.0f}"
    )
    return f"{median} [{min(samples):,.4g} – {max(samples):,.4g}]"
