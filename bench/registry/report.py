"""Writes the report of a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import bowstring
from bench.report_files import compact

Figures = dict[str, dict[str, list[float]]]
"""Samples by figure and program."""
OURS, THEIRS = "bowstring", "karapace"


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
        "| figure | Karapace | Bowstring | Bowstring / Karapace |",
        "| --- | --- | --- | --- |",
        *(_line(name, samples) for name, samples in figures.items()),
    ]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def _line(name: str, samples: Mapping[str, list[float]]) -> str:
    ours, theirs = samples.get(OURS), samples.get(THEIRS)
    ratio = f"{statistics.median(ours) / statistics.median(theirs):,.3g}" if ours and theirs else "–"
    return f"| {name} | {_cell(theirs)} | {_cell(ours)} | {ratio} |"


def _cell(samples: list[float] | None) -> str:
    if not samples:
        return "–"
    median = (
        f"{statistics.median(samples):,.4g}" if max(samples) < 1000 else f"{statistics.median(samples):,.0f}"
    )
    return f"{median} [{min(samples):,.4g} – {max(samples):,.4g}]"
