"""Draws the chart of README, docs/figures.svg: Bowstring beside Apache Kafka, from the JSON of reports.

    python -m bench.chart                     # the newest measurement of each bar in perf_reports/
    python -m bench.chart perf_reports/DIR …  # these reports only

A row needs a report that measured both brokers. All rows come from one machine, the one that has most of
them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bench.bars import BOWSTRING, KAFKA

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "perf_reports"
PICTURE = ROOT / "docs" / "figures.svg"
TITLE = "Bowstring beside Apache Kafka"
NAMES = {KAFKA: "Apache Kafka", BOWSTRING: "Bowstring"}

WIDTH = 880
MARGIN = 16
COLUMN_GAP = 28
LABEL_WIDTH = 168
VALUE_WIDTH = 58
BAR_HEIGHT = 12
ROW_HEIGHT = 2 * BAR_HEIGHT + 12
PANEL_HEAD = 44
FIRST_PANEL = 66
CAPTION_LINE = 16
CAPTION_COLUMNS = 128
# Bowstring has one accent colour, Kafka is grey. Both have a contrast of 3:1 with GitHub's two backgrounds.
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .panel { font-size: 13px; font-weight: 600 }
  .note, .caption { fill: #59636e; font-size: 11px }
  .kafka { fill: #848d97 }
  .bowstring { fill: #0969da }
  .best { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .note, .caption { fill: #9198a1 }
    .kafka { fill: #7d8590 }
    .bowstring { fill: #4493f8 }
  }
"""


@dataclass(frozen=True)
class Row:
    """Two bars: one figure of both brokers."""

    label: str
    case: str
    metric: str


@dataclass(frozen=True)
class Panel:
    """Rows with one unit and one scale.

    Attributes:
        divisor: what the JSON's figure is divided by before it is printed.
        more_is_better: which direction wins.
    """

    title: str
    note: str
    divisor: float
    unit: str
    more_is_better: bool
    rows: tuple[Row, ...]


THROUGHPUT = Panel(
    "From the page cache, million records/s",
    "Kafka's own Java clients, records of 100 bytes; longer is better",
    1e6,
    " M",
    True,
    (
        Row("1 producer, 8 KB batches", "produce-small", "records_per_second"),
        Row("1 producer, defaults", "produce-modern", "records_per_second"),
        Row("3 producers", "produce-3", "records_per_second"),
        Row("1 consumer", "consume", "records_per_second"),
        Row("3 consumers", "consume-3", "records_per_second"),
    ),
)
ON_DISK = Panel(
    "Acknowledged from the disk, thousand records/s",
    "Kafka: from its page cache, but in the last row; longer is better",
    1e3,
    " k",
    True,
    (
        Row("100 B, 8 KB batches", "commit-small", "records_per_second"),
        Row("100 B, defaults", "commit-modern", "records_per_second"),
        Row("1 KiB, defaults", "durable", "records_per_second"),
        Row("1 KiB, flush.messages=1", "durable-synced", "records_per_second"),
    ),
)
START = Panel(
    "Start, seconds",
    "from fork to the first answer; shorter is better",
    1,
    " s",
    False,
    (Row("process start", "start", "start_seconds"),),
)
PROCESSOR = Panel(
    "Broker CPU-seconds per GB",
    "of record values; shorter is better",
    1,
    "",
    False,
    (
        Row("to the disk, defaults", "commit-modern", "cpu_seconds_per_gb"),
        Row("produce, defaults", "produce-modern", "cpu_seconds_per_gb"),
        Row("produce, 64 KiB batches", "produce-large", "cpu_seconds_per_gb"),
        Row("consume", "consume", "cpu_seconds_per_gb"),
    ),
)
MEMORY = Panel(
    "Memory, MiB resident",
    "of the broker; shorter is better",
    1,
    "",
    False,
    (Row("idle", "idle", "rss_mib"), Row("under load, peak", "memory", "rss_peak_mib")),
)
SPARK = Panel(
    "Spark read, million rows/s",
    'Spark\'s Kafka connector; format("bowstring"); longer is better',
    1e6,
    " M",
    True,
    (
        Row("sum(length(value))", "spark-queries", "sum_rows_per_second"),
        Row("all columns", "spark-queries", "noop_rows_per_second"),
        Row("from_json", "spark-values", "from_json_rows_per_second"),
    ),
)
COLUMNS: tuple[tuple[Panel, ...], ...] = ((ON_DISK, THROUGHPUT, START), (PROCESSOR, MEMORY, SPARK))


class ChartError(Exception):
    """No chart can be drawn from these reports; the message says why."""


@dataclass(frozen=True)
class Report:
    """A report.json of `python -m bench`, and the name of its directory."""

    name: str
    data: dict[str, Any]

    @property
    def machine(self) -> tuple[str, str]:
        """Kind and size of the machine."""
        return self.data["machine"]["CPU"], self.data["machine"]["cores"]

    def median(self, row: Row, peer: str) -> float | None:
        """Median over the rounds, None when `peer` was not measured."""
        samples = self.data["cases"].get(row.case, {}).get("samples", [])
        values = [
            each["values"][row.metric]
            for each in samples
            if each["peer"] == peer and row.metric in each["values"]
        ]
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class Bars:
    """What was measured for a row, and by which report."""

    kafka: float
    bowstring: float
    report: str

    def of(self, peer: str) -> float:
        """The figure of one broker."""
        return self.kafka if peer == KAFKA else self.bowstring


Figures = dict[Row, Bars]


def load(directories: Iterable[Path]) -> list[Report]:
    """The reports of `python -m bench` among `directories`, newest first.

    Smoke runs and reports of other benches (`bowstring bench kreps`) are left out.
    """
    reports = []
    for directory in directories:
        path = directory / "report.json"
        data = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if "cases" in data and data.get("size") != "smoke":
            reports.append(Report(directory.resolve().name, data))
    return sorted(reports, key=lambda report: str(report.data["started"]), reverse=True)


def figures(reports: list[Report]) -> Figures:
    """For each row the newest report that measured both brokers, on the machine that has most of the rows;
    of several the one of the newest report.
    """
    machines = dict.fromkeys(report.machine for report in reports)
    found = max((_of_machine(reports, each) for each in machines), key=len, default=None)
    if not found:
        raise ChartError("no report has figures of both brokers: run `make bench` first")
    return found


def _of_machine(reports: list[Report], machine: tuple[str, str]) -> Figures:
    found: Figures = {}
    for row in all_rows():
        for report in reports:
            kafka, bowstring = report.median(row, KAFKA), report.median(row, BOWSTRING)
            if report.machine == machine and kafka is not None and bowstring is not None:
                found[row] = Bars(kafka, bowstring, report.name)
                break
    return found


def all_rows() -> list[Row]:
    """Every row of the chart, in order."""
    return [row for column in COLUMNS for panel in column for row in panel.rows]


def text_of(value: float, panel: Panel) -> str:
    """A figure as the chart prints it: three significant digits."""
    scaled = value / panel.divisor
    digits = f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:#.3g}".rstrip(".")
    return digits + panel.unit


def draw(reports: list[Report]) -> str:
    """The SVG.

    Raises:
        ChartError: no report measured both brokers.
    """
    found = figures(reports)
    parts: list[str] = []
    bottoms: list[float] = []
    column_width = (WIDTH - 2 * MARGIN - COLUMN_GAP) / len(COLUMNS)
    for index, column in enumerate(COLUMNS):
        left, top = MARGIN + index * (column_width + COLUMN_GAP), float(FIRST_PANEL)
        for panel in column:
            rows = [row for row in panel.rows if row in found]
            if rows:
                parts += _panel(panel, rows, found, left, top, column_width)
                top += PANEL_HEAD + len(rows) * ROW_HEIGHT + 10
        bottoms.append(top)
    caption = _caption(reports, found)
    top = max(bottoms) + 14
    height = top + len(caption) * CAPTION_LINE + 4
    lines = [
        _text(MARGIN, top + number * CAPTION_LINE, line, "caption") for number, line in enumerate(caption)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
            f'height="{height:g}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{TITLE}</title>',
            f'<desc id="desc">{escape(_described(found))}</desc>',
            f"<style>{STYLE}</style>",
            _text(MARGIN, 24, TITLE, "title"),
            *_legend(),
            *parts,
            *lines,
            "</svg>\n",
        ]
    )


def _panel(
    panel: Panel, rows: list[Row], found: Figures, left: float, top: float, width: float
) -> Iterator[str]:
    yield _text(left, top + 14, panel.title, "panel")
    yield _text(left, top + 30, panel.note, "note")
    largest = max(found[row].of(peer) for row in rows for peer in NAMES)
    room = width - LABEL_WIDTH - VALUE_WIDTH
    for number, row in enumerate(rows):
        at = top + PANEL_HEAD + number * ROW_HEIGHT
        yield _text(left, at + BAR_HEIGHT + 4, row.label)
        bars = found[row]
        best = (max if panel.more_is_better else min)(bars.kafka, bars.bowstring)
        for place, (peer, name) in enumerate(NAMES.items()):
            value = bars.of(peer)
            length = max(1.0, room * value / largest)
            bar_top = at + place * (BAR_HEIGHT + 2)
            shown = text_of(value, panel)
            told = f"{name}, {row.label}: {shown}"
            yield (
                f'<rect class="{peer}" data-case="{row.case}" data-metric="{row.metric}" '
                f'data-value={quoteattr(repr(value))} x="{left + LABEL_WIDTH:g}" y="{bar_top:g}" '
                f'width="{length:.1f}" height="{BAR_HEIGHT}" rx="1.5"><title>{escape(told)}</title></rect>'
            )
            kind = "best" if value == best else ""
            yield _text(left + LABEL_WIDTH + length + 5, bar_top + BAR_HEIGHT - 2, shown, kind)


def _legend() -> Iterator[str]:
    left = MARGIN
    for peer, name in NAMES.items():
        yield f'<rect class="{peer}" x="{left}" y="37" width="12" height="12" rx="1.5"/>'
        yield _text(left + 18, 47, name)
        left += 116


def _caption(reports: list[Report], found: Figures) -> list[str]:
    """Returns the caption: measurements, machine, and reports."""
    used = {bars.report for bars in found.values()}
    newest = next(report for report in reports if report.name in used)
    data = newest.data
    cpu, cores = newest.machine
    text = (
        f"{data['peers'][KAFKA]} and {data['peers'][BOWSTRING]} in turn on one machine ({cpu}, {cores} "
        "cores, shared with the clients); medians. Both acknowledge from the page cache, except in the panel "
        "about the disk. Figures that miss their aim: docs/figures.md. From perf_reports/: "
        f"{', '.join(sorted(used))}."
    )
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= CAPTION_COLUMNS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _described(found: Figures) -> str:
    """Returns all figures as text, for readers who cannot see the picture."""
    panels = []
    for panel in (panel for column in COLUMNS for panel in column):
        rows = [
            f"{row.label}: Kafka {text_of(found[row].kafka, panel)}, "
            f"Bowstring {text_of(found[row].bowstring, panel)}"
            for row in panel.rows
            if row in found
        ]
        if rows:
            panels.append(f"{panel.title}. " + "; ".join(rows))
    return ". ".join(panels) + "."


def _text(left: float, top: float, words: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text{attribute} x="{left:.1f}" y="{top:g}">{escape(words)}</text>'


def main(arguments: list[str] | None = None) -> int:
    """Draws the chart and prints its path; 1 when the reports have no figures of both brokers."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chart",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("reports", nargs="*", type=Path, metavar="REPORT_DIR", help="default: all of them")
    parser.add_argument("--output", type=Path, default=PICTURE, help="default: docs/figures.svg")
    options = parser.parse_args(arguments)
    try:
        reports = load(options.reports or sorted(REPORTS.iterdir()))
        options.output.write_text(draw(reports), encoding="utf-8")
        missing = [row for row in all_rows() if row not in figures(reports)]
    except ChartError as error:
        print(f"bench.chart: {error}", file=sys.stderr)
        return 1
    for row in missing:
        print(f"bench.chart: left out, in no report of both: {row.case} {row.metric}", file=sys.stderr)
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
