"""Draws the report's pictures: SVG bars beside the peer's."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.bars import BOWSTRING, KAFKA
from bench.results import CaseResult

COLOURS = {KAFKA: "#8a8f98", BOWSTRING: "#1f77b4"}
LABELS = {KAFKA: "Apache Kafka", BOWSTRING: "Bowstring"}
CPU = "CPU-s/GB"
LOOP_COLOUR = "#d1242f"

# (file, title, unit, [(label, case, metric)])
Groups = list[tuple[str, str, str]]
PLOTS: list[tuple[str, str, str, Groups]] = [
    (
        "cpu_per_gb.svg",
        "Broker CPU-seconds per GB of payload",
        CPU,
        [
            ("produce\nacks=1, 8 KB", "produce-small", "cpu_seconds_per_gb"),
            ("produce\nmodern defaults", "produce-modern", "cpu_seconds_per_gb"),
            ("produce\n64 KiB", "produce-large", "cpu_seconds_per_gb"),
            ("consume", "consume", "cpu_seconds_per_gb"),
        ],
    ),
    (
        "throughput.svg",
        "Throughput with the Java clients",
        "records/s",
        [
            ("1 producer", "produce-small", "records_per_second"),
            ("1 producer\nmodern", "produce-modern", "records_per_second"),
            ("3 producers", "produce-3", "records_per_second"),
            ("1 consumer", "consume", "records_per_second"),
            ("3 consumers", "consume-3", "records_per_second"),
            ("both:\nproducer", "both", "produce_records_per_second"),
            ("both:\nconsumer", "both", "consume_records_per_second"),
        ],
    ),
    (
        "latency.svg",
        "End-to-end latency, one record at a time",
        "ms",
        [
            ("p50", "latency", "p50_ms"),
            ("p99", "latency", "p99_ms"),
            ("p99.9", "latency", "p999_ms"),
        ],
    ),
    (
        "memory.svg",
        "Resident memory",
        "MiB",
        [
            ("idle", "idle", "rss_mib"),
            ("under load, peak", "memory", "rss_peak_mib"),
            ("with the idle\npartitions", "partitions", "rss_mib"),
        ],
    ),
]


def draw(cases: dict[str, CaseResult], directory: Path) -> list[tuple[str, str]]:
    """Draws the measurements into `directory`; returns (file name, title) of each picture."""
    drawn = []
    # Text stays text and ids do not change between runs, so that pictures can be compared.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowstring"}):
        for file_name, title, unit, groups in PLOTS:
            present = [group for group in groups if _peers(cases, group)]
            if present:
                _draw_one(cases, present, title, unit, directory / file_name)
                drawn.append((file_name, title))
    return drawn


def _peers(cases: dict[str, CaseResult], group: tuple[str, str, str]) -> list[str]:
    _, name, metric = group
    return [peer for peer in COLOURS if name in cases and cases[name].values(peer, metric)]


def _draw_one(cases: dict[str, CaseResult], groups: Groups, title: str, unit: str, path: Path) -> None:
    figure = Figure(figsize=(max(5.0, 1.5 * len(groups) + 1.5), 4.2), layout="constrained")
    axes = figure.subplots()
    width = 0.38
    for index, (peer, colour) in enumerate(COLOURS.items()):
        positions, medians, below, over = [], [], [], []
        for at, group in enumerate(groups):
            if peer not in _peers(cases, group):
                continue
            values = cases[group[1]].values(peer, group[2])
            median = cases[group[1]].median(peer, group[2]) or 0.0
            positions.append(at + (index - 0.5) * width)
            medians.append(median)
            below.append(median - min(values))
            over.append(max(values) - median)
        if positions:
            bars = axes.bar(
                positions, medians, width, yerr=[below, over], capsize=3, color=colour, label=LABELS[peer]
            )
            axes.bar_label(bars, [_short(value) for value in medians], padding=3, fontsize=8)
    if unit == CPU:
        _draw_loops(axes, cases, groups)
    axes.margins(y=0.12)
    axes.set_xticks(range(len(groups)), [group[0] for group in groups])
    axes.set_ylabel(unit)
    axes.set_title(title)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _draw_loops(axes: Axes, cases: dict[str, CaseResult], groups: Groups) -> None:
    """Draws the bare loop of each group as a line across its bars."""
    lines = {at: cases[name].limit(metric) for at, (_, name, metric) in enumerate(groups)}
    found = {at: limit for at, limit in lines.items() if limit is not None}
    if found:
        begins, ends = [at - 0.42 for at in found], [at + 0.42 for at in found]
        axes.hlines(list(found.values()), begins, ends, LOOP_COLOUR, "dashed", label="bare loop")


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:.3g}"
