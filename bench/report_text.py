"""Writes figures and tables of reports in Markdown."""

from __future__ import annotations

import statistics


def number(value: float | None) -> str:
    """Three significant digits, thousands grouped."""
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if value != 0 and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.3g}"


def spread(values: list[float]) -> str:
    """The median; of several values also the least and the greatest."""
    if not values:
        return number(None)
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} [{number(min(values))} – {number(max(values))}]"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table; bars in its cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
