"""Runs `python -m bench.scale`: writes perf_reports/<date>-<machine>-scale/report.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench import machine, report
from bench.report_files import compact
from bench.scale.measure import COLLECTS, LEADS, Figures, Size, measure

REPORTS = report.ROOT / "perf_reports"


def table(figures: Figures) -> list[str]:
    """Returns the figures as Markdown, a table for each subject."""
    lines = []
    for subject in dict.fromkeys(row[0] for row in figures.rows):
        title = f"{subject[0].upper()}{subject[1:]}"
        lines += [f"## {title}", "", "| what | figure | where |", "| --- | ---: | --- |"]
        lines += [
            f"| {what} | {_figure(value, unit)} | {where} |"
            for of, what, value, unit, where in figures.rows
            if of == subject
        ]
        lines.append("")
    return lines


def limits(figures: Figures) -> list[str]:
    """Returns what stops the controller's thread, the longest first: it limits the cluster next."""
    death = ("the session is over: its records", "they are applied", "they are encoded")
    pauses = {
        "a new controller copies and indexes its image": figures.value(LEADS),
        "a broker's death is decided, applied and encoded": sum(figures.value(each) for each in death),
        "a snapshot begins": figures.value("the image is copied for it"),
        "the collector of a node goes through all objects": figures.value(COLLECTS),
    }
    lines = ["## What limits it next", "", "The controller's thread does nothing else while"]
    longest = sorted(pauses.items(), key=lambda each: each[1], reverse=True)
    return [*lines, *(f"- {what}: {ms:,.0f} ms" for what, ms in longest), ""]


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
        f"`python -m bench.scale`, {started}, on {facts['CPU']}, Python {facts['Python']}.",
        "Every figure in ms is processor time of one thread, which other load on the machine changes little.",
        "Nothing is sent and nothing is stored: disks, network and requests come on top.",
        "",
    ]
    text = "\n".join([*head, *limits(figures), *table(figures)])
    (directory / "report.md").write_text(text)
    names = ("subject", "what", "value", "unit", "remark")
    rows = [dict(zip(names, row, strict=True)) for row in figures.rows]
    data = {"started": started, "machine": facts, "size": size._asdict(), "figures": rows}
    (directory / "report.json").write_text(compact(data))
    print(text)
    print(directory / "report.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
