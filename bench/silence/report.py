"""Judges the waits of other clients, and writes the report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.report_files import compact

LONGEST_MS: Final = 50.0
"""The bar: no answer of another client takes longer, whatever one client has requested."""
ALONE: Final = "nothing"
"""The load of the rows that show the machine's own pauses; they have no bar."""


class Row(NamedTuple):
    """The waits of another client during one load, in ms."""

    where: str
    load: str
    took_s: float
    question: str
    answers: int
    median_ms: float
    longest_ms: float


HEAD: Final = (
    "| where | load | took | question | answers | median | longest | bar |\n"
    "| - | - | -: | - | -: | -: | -: | - |"
)


def is_met(row: Row) -> bool | None:
    """Returns whether the longest wait is within the bar; None for a row without one."""
    return None if row.load == ALONE else row.longest_ms <= LONGEST_MS


def line(row: Row) -> str:
    """Returns a row as a line of a Markdown table."""
    return (
        f"| {row.where} | {row.load} | {row.took_s:.2f} s | {row.question} | {row.answers:,} | "
        f"{row.median_ms:.2f} ms | {row.longest_ms:.1f} ms | {_verdict(row)} |"
    )


def _verdict(row: Row) -> str:
    met = is_met(row)
    return "" if met is None else f"≤ {LONGEST_MS:g} ms: {'met' if met else '**missed**'}"


def worst(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Returns each row of the round in which its longest wait was longest: the bar is for every answer."""
    return [max(same, key=lambda row: row.longest_ms) for same in zip(*rounds, strict=True)]


def written(folder: Path, rounds: Sequence[Sequence[Row]], machine: Mapping[str, str]) -> None:
    """Writes report.md and report.json, which has every round and the bars, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    judged = worst(rounds)
    data = {
        "time": now.isoformat(),
        "machine": machine,
        "rounds": [[row._asdict() for row in each] for each in rounds],
        "bars": [_bar(row) for row in judged if is_met(row) is not None],
    }
    (folder / "report.json").write_text(compact(data))
    missed = sum(is_met(row) is False for row in judged)
    lines = [
        f"# How long one client's large request keeps others waiting, {now:%Y-%m-%d}",
        "",
        f"`python -m bench.silence`; of {len(rounds)} rounds each row shows the one with its longest wait.",
        f"{len(data['bars']) - missed} bars met, {missed} missed.",
        "",
        "| fact | value |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in machine.items()),
        "",
        HEAD,
        *map(line, judged),
    ]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def _bar(row: Row) -> dict[str, Any]:
    return {
        "figure": f"{row.where}, {row.load}: {row.question}",
        "unit": "ms",
        "limits": [f"≤ {LONGEST_MS:g} ms"],
        "bowstring": row.longest_ms,
        "met": is_met(row),
    }
