"""Runs `python -m bench.scale`: writes perf_reports/<date>-<machine>-scale/report.md."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

from bench import machine, report
from bench.scale.measure import Figures, Size, measure

REPORTS = report.ROOT / "perf_reports"


def table(figures: Figures) -> list[str]:
    """Returns the figures as Markdown, a table for each subject."""
    lines = []
    for subject, rows in groupby(sorted(figures.rows, key=_order(figures)), key=lambda row: row[0]):
        lines += [f"## {subject[0].upper()}{subject[1:]}", "", "| what | figure | where |", "| --- | ---: | --- |"]
        lines += [f"| {what} | {_figure(value, unit)} | {remark} |" for _, what, value, unit, remark in rows]
        lines.append("")
    return lines


def _order(figures: Figures):  # type: ignore[no-untyped-def]
    subjects = list(dict.fromkeys(row[0] for row in figures.rows))
    return lambda row: subjects.index(row[0])


def _figure(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if value >= 100 or not unit else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def main(arguments: list[str] | None = None) -> int:
    """Measures, prints the tables and writes the report; prints where it is."""
    size = Size()
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--brokers", type=int, default=size.brokers)
    parser.add_argument("--topics", type=int, default=size.topics)
    parser.add_argument("--partitions", type=int, default=size.partitions_of_a_topic, help="of each topic")
    parser.add_argument("--behind", type=int, default=size.records_behind, help="records behind the snapshot")
    parser.add_argument("--output", type=Path, default=REPORTS, help="where the report's directory goes")
    options = parser.parse_args(arguments)
    size = Size(options.brokers, options.topics, options.partitions, options.behind)
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    with tempfile.TemporaryDirectory(prefix="bowstring-scale-") as work:
        figures = measure(size, Path(work))
    facts = machine.facts()
    directory: Path = options.output / f"{started[:10]}-{machine.slug(facts)}-scale"
    directory.mkdir(parents=True, exist_ok=True)
    head = [
        f"# {size.brokers} brokers, {size.partitions:,} partitions, {started[:10]}",
        "",
        f"`python -m bench.scale`, {started}, on {facts['CPU']}, {facts['cores']} cores, Python {facts['Python']}. Every "
        "figure in ms is processor time of",
        "one thread, which other load on the machine changes little.",
        "",
    ]
    text = "\n".join([*head, *table(figures)])
    (directory / "report.md").write_text(text)
    names = ("subject", "what", "value", "unit", "remark")
    rows = [dict(zip(names, row, strict=True)) for row in figures.rows]
    data = {"started": started, "machine": facts, "size": size._asdict(), "figures": rows}
    (directory / "report.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    print(text)
    print(directory / "report.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
