"""Writes what a run gave: report.md, report.json and pictures. Nothing in them is typed by hand."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import machine
from bench.kreps.catalogue import Test
from bench.kreps.run import Outcome, Result
from bench.report import number

TITLES = {"bowstring": "Bowstring", "kafka": "Apache Kafka"}
COLOURS = {"bowstring": "#1f77b4", "kafka": "#8a8f98"}
SWEEPS = {
    "sizes": ("record size, bytes", "mb_per_second", "MB/s"),
    "partitions": ("partitions", "records_per_second", "records/s"),
    "connections": ("connections", "records_per_second", "records/s"),
    "stored": ("GB stored", "records_per_second", "records/s"),
}


def write(result: Result, parent: Path) -> Path:
    """Writes the report below `parent` and returns its directory."""
    name = f"{result.started[:10]}-{machine.slug(result.machine)}-kreps-{result.client}"
    directory = parent / name
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.svg"):
        stale.unlink()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowstring"}):
        pictures = _pictures(result, directory)
    (directory / "report.json").write_text(json.dumps(result.to_json(), indent=1) + "\n")
    (directory / "report.md").write_text(_markdown(result, pictures))
    return directory


def _markdown(result: Result, pictures: list[tuple[str, str]]) -> str:
    peers = [peer for peer in TITLES if any(peer in found for found in result.outcomes.values())]
    facts = result.machine | {TITLES[name]: version for name, version in result.versions.items()}
    parts = [
        f"# Two million writes a second, {result.started[:10]}",
        f"`bowstring bench kreps --client {result.client}`: {result.duration_seconds / 60:.1f} minutes from "
        f"{result.started}; brokers and clients on one machine, {result.records:,} records of 100 bytes in a "
        "full test, 6 partitions. A figure is the median of its rounds, the least and the greatest in "
        "brackets. "
        "2014: six-core Xeons, three of them brokers and three load machines, 1 Gb Ethernet.",
        _table(["fact", "value"], [[key, value] for key, value in facts.items()]),
        "## Records a second",
        _table(["test", "2014", *[TITLES[peer] for peer in peers]], _rate_rows(result, peers)),
        "## CPU and memory",
        "CPU-seconds for a GB of values, brokers and clients apart; the brokers' greatest resident memory.",
        _table(
            [
                "test",
                *[f"{TITLES[peer]}: {what}" for peer in peers for what in ("brokers", "clients", "MiB")],
            ],
            _cost_rows(result, peers),
        ),
        *[f"![{title}]({file})" for file, title in pictures],
        *_sweeps(result, peers),
        *_left_out(result, peers),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rate_rows(result: Result, peers: list[str]) -> list[list[str]]:
    rows = []
    for test in result.tests:
        if test.kind in ("sizes", "partitions", "connections"):
            continue
        then = " / ".join(f"{each:,.0f}" for each in test.figure_2014 or ())
        if test.kind == "stored" and not then:
            then = "flat"
        found = [_rate(test, result.outcomes[test.name][peer]) for peer in peers]
        rows.append([test.title, then or "–", *found])
    return rows


def _rate(test: Test, outcome: Outcome) -> str:
    if outcome.skipped or not outcome.rounds:
        return "–"
    if test.kind == "latency":
        cuts = [outcome.median(f"{name}_ms") for name in ("p50", "p99", "p999")]
        return " / ".join(number(each) for each in cuts) + " ms"
    return _spread(outcome.values("records_per_second"))


def _cost_rows(result: Result, peers: list[str]) -> list[list[str]]:
    metrics = ("broker_cpu_seconds_per_gb", "client_cpu_seconds_per_gb", "broker_rss_peak_mib")
    rows = []
    for test in result.tests:
        found = [
            number(result.outcomes[test.name][peer].median(metric)) for peer in peers for metric in metrics
        ]
        if any(each != "–" for each in found):
            rows.append([test.title, *found])
    return rows


def _sweeps(result: Result, peers: list[str]) -> list[str]:
    parts = []
    for test in result.tests:
        if test.kind not in SWEEPS:
            continue
        label, metric, unit = SWEEPS[test.kind]
        points = {peer: dict(result.outcomes[test.name][peer].points(metric)) for peer in peers}
        xs = sorted({x for found in points.values() for x in found})
        if xs:
            rows = [[number(x), *[number(points[peer].get(x)) for peer in peers]] for x in xs]
            parts += [
                f"## By {test.title}, {unit}",
                _table([label, *[TITLES[peer] for peer in peers]], rows),
            ]
    return parts


def _left_out(result: Result, peers: list[str]) -> list[str]:
    lines = []
    for test in result.tests:
        for peer in peers:
            outcome = result.outcomes[test.name][peer]
            if outcome.skipped:
                lines.append(f"- {test.title}, {TITLES[peer]}: not run; {outcome.skipped}")
            if outcome.failure:
                lines.append(f"- {test.title}, {TITLES[peer]}: **failed**: {outcome.failure}")
    return ["## Left out", "\n".join(lines)] if lines else []


def _spread(values: list[float]) -> str:
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} [{number(min(values))} – {number(max(values))}]"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# ---------------------------------------------------------------- pictures


def _pictures(result: Result, directory: Path) -> list[tuple[str, str]]:
    made = []
    for file, title, draw in (
        ("throughput.svg", "Records a second, beside 2014", _draw_rates),
        ("over_time.svg", "Throughput over time", _draw_time),
        ("latency.svg", "End-to-end latency, one record at a time", _draw_latency),
        ("cpu_per_gb.svg", "Broker CPU-seconds per GB", _draw_cpu),
        ("stored.svg", "Throughput against stored data", _draw_stored),
    ):
        figure = Figure(figsize=(9, 4.4), layout="constrained")
        axes = figure.subplots()
        if not draw(result, axes):
            continue
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(directory / file, format="svg", metadata={"Date": None, "Creator": None})
        made.append((file, title))
    return made


def _bars(result: Result, axes: Axes, metric: str, *, then: bool) -> bool:
    tests = [
        test
        for test in result.tests
        if any(each.values(metric) for each in result.outcomes[test.name].values()) and test.kind != "latency"
    ]
    groups: dict[str, list[float | None]] = {}
    if then:
        groups["2014"] = [test.figure_2014[0] if test.figure_2014 else None for test in tests]
    for peer, title in TITLES.items():
        groups[title] = [
            result.outcomes[test.name][peer].median(metric) if peer in result.outcomes[test.name] else None
            for test in tests
        ]
    width = 0.8 / len(groups)
    colours = {"2014": "#d0b48c", **{TITLES[peer]: colour for peer, colour in COLOURS.items()}}
    for index, (label, values) in enumerate(groups.items()):
        places = [
            at + (index - (len(groups) - 1) / 2) * width for at, v in enumerate(values) if v is not None
        ]
        axes.bar(places, [v for v in values if v is not None], width, label=label, color=colours[label])
    axes.set_xticks(range(len(tests)), [test.name for test in tests], rotation=25, ha="right", fontsize=8)
    return bool(tests)


def _draw_rates(result: Result, axes: Axes) -> bool:
    axes.set_ylabel("records/s")
    return _bars(result, axes, "records_per_second", then=True)


def _draw_cpu(result: Result, axes: Axes) -> bool:
    axes.set_ylabel("CPU-s/GB")
    return _bars(result, axes, "broker_cpu_seconds_per_gb", then=False)


def _draw_time(result: Result, axes: Axes) -> bool:
    drawn = False
    for test in result.tests[:1]:
        for peer, outcome in result.outcomes[test.name].items():
            for line in outcome.rounds[-1].timelines[:1] if outcome.rounds else []:
                pairs = list(itertools.pairwise(line))
                xs = [after[0] for _, after in pairs]
                ys = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if b[0] > a[0]]
                axes.plot(xs[: len(ys)], ys, label=f"{TITLES[peer]}, {test.title}", color=COLOURS[peer])
                drawn = True
    axes.set_xlabel("seconds")
    axes.set_ylabel("records/s")
    axes.set_ylim(bottom=0)
    return drawn


def _draw_latency(result: Result, axes: Axes) -> bool:
    names = ("p50", "p99", "p999")
    drawn = False
    for test in result.tests:
        if test.kind != "latency":
            continue
        if test.figure_2014:
            axes.plot(names, test.figure_2014, "o--", label="2014", color="#d0b48c")
        for peer, outcome in result.outcomes[test.name].items():
            cuts = [outcome.median(f"{name}_ms") for name in names]
            if all(each is not None for each in cuts):
                axes.plot(
                    names, [each or 0.0 for each in cuts], "o-", label=TITLES[peer], color=COLOURS[peer]
                )
                drawn = True
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    return drawn


def _draw_stored(result: Result, axes: Axes) -> bool:
    drawn = False
    for test in result.tests:
        if test.kind != "stored":
            continue
        for peer, outcome in result.outcomes[test.name].items():
            points = outcome.points("records_per_second")
            if points:
                axes.plot(*zip(*points, strict=True), "o-", label=TITLES[peer], color=COLOURS[peer])
                drawn = True
    axes.set_xlabel("GB stored")
    axes.set_ylabel("records/s")
    axes.set_ylim(bottom=0)
    return drawn
