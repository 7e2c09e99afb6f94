"""Draws the pictures of a report, as SVG."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from bench.kreps.catalogue import Test
from bench.kreps.results import Result

TITLES = {"bowstring": "Bowstring", "kafka": "Apache Kafka"}
COLOURS = {"bowstring": "#1f77b4", "kafka": "#8a8f98"}
THEN = "2014"
THEN_COLOUR = "#d0a15c"
LOOP = "bare loop"
LOOP_COLOUR = "#d1242f"
# Tests drawn over time if they were run, the most important first.
OVER_TIME = ("producer", "producers-3", "producers-3-async", "both", "mixed", "modern")
PANELS_MAX = 4
# Position of a line's labels in points from their mark, so that they do not overlap.
AT = {"bowstring": (0, -11), "kafka": (0, 5), THEN: (12, -3)}
# (kind, label, metric, unit, whether x is logarithmic) of sweeps with their own picture.
SWEEPS = (
    (
        "stored",
        "GB of values stored before and during the measurement",
        "records_per_second",
        "records/s",
        False,
    ),
    ("sizes", "bytes of a value", "mb_per_second", "MB/s", True),
    ("partitions", "partitions", "records_per_second", "records/s", True),
    ("connections", "connections", "records_per_second", "records/s", True),
    ("active", "connections", "records_per_second", "records/s", True),
)


def draw(result: Result, directory: Path) -> list[tuple[str, str]]:
    """Draws everything that has figures; returns (file, title) of each."""
    made = []
    # Text stays text and ids do not change between runs, so that pictures can be compared.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowstring", "font.size": 9}):
        for file, title, make in (
            ("throughput.svg", "Records a second, beside 2014", _rates),
            ("over_time.svg", "Throughput over time, last round", _over_time),
            ("latency.svg", "End-to-end latency, one record at a time", _latency),
            ("cpu_per_gb.svg", "CPU-seconds per GB of values", _cpu),
        ):
            if figure := make(result):
                _save(figure, title, directory / file)
                made.append((file, title))
        for test in result.tests:
            if figure := _sweep(result, test):
                _save(figure, test.title, directory / f"{test.name}.svg")
                made.append((f"{test.name}.svg", test.title))
    return made


def _save(figure: Figure, title: str, path: Path) -> None:
    figure.suptitle(title[0].upper() + title[1:], fontsize=12)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _short(value: float, _: object = None) -> str:
    """E.g. 2.02 M, 821 k, 0.2."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"


def _grouped(value: float, _: object = None) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


# Values by label, for each test, round by round; empty where there are none.
Bars = dict[str, list[list[float]]]


def _horizontal(axes: Axes, names: list[str], groups: Bars, colours: dict[str, str]) -> None:
    """Draws medians as bars side by side without gaps for missing ones, the first test on top; adds a line
    from minimum to maximum, and the figure.
    """
    height = 0.8 / len(groups)
    for label, tests in groups.items():
        for at, values in enumerate(tests):
            if not values:
                continue
            there = [each for each in groups if groups[each][at]]
            place = at + (there.index(label) - (len(there) - 1) / 2) * height
            median = statistics.median(values)
            spread = [[median - min(values)], [max(values) - median]] if len(values) > 1 else None
            bars = axes.barh(place, median, height, xerr=spread, color=colours[label], error_kw={"lw": 0.8})
            axes.bar_label(bars, [_short(median)], padding=3, fontsize=7)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))


def _peers(result: Result) -> list[str]:
    return [peer for peer in TITLES if any(peer in found for found in result.outcomes.values())]


def _measured(result: Result, metric: str) -> list[Test]:
    return [
        test
        for test in result.tests
        if any(each.values(metric) for each in result.outcomes[test.name].values())
    ]


def _values(result: Result, tests: list[Test], peer: str, metric: str) -> list[list[float]]:
    outcomes = [result.outcomes[test.name].get(peer) for test in tests]
    return [outcome.values(metric) if outcome else [] for outcome in outcomes]


def _rates(result: Result) -> Figure | None:
    tests = _measured(result, "records_per_second")
    if not tests:
        return None
    groups: Bars = {THEN: [[test.figure_2014[0]] if test.figure_2014 else [] for test in tests]}
    groups |= {TITLES[peer]: _values(result, tests, peer, "records_per_second") for peer in _peers(result)}
    groups = {label: values for label, values in groups.items() if any(values)}
    figure = Figure(figsize=(9, 1.4 + 0.62 * len(tests)), layout="constrained")
    axes = figure.subplots()
    _horizontal(axes, [test.title for test in tests], groups, _colours())
    axes.set_xlabel("records/s")
    _legend(figure, groups)
    return figure


def _legend(figure: Figure, labels: Iterable[str]) -> None:
    """Draws the legend below everything."""
    handles = [Patch(color=_colours()[label], label=label) for label in labels]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def _colours() -> dict[str, str]:
    return {
        THEN: THEN_COLOUR,
        LOOP: LOOP_COLOUR,
        **{TITLES[peer]: colour for peer, colour in COLOURS.items()},
    }


def _cpu(result: Result) -> Figure | None:
    tests = _measured(result, "broker_cpu_seconds_per_gb")
    if not tests:
        return None
    figure = Figure(figsize=(10, 1.4 + 0.5 * len(tests)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, who in zip(panels, ("broker", "client"), strict=True):
        metric = f"{who}_cpu_seconds_per_gb"
        groups = {TITLES[peer]: _values(result, tests, peer, metric) for peer in _peers(result)}
        if who == "broker" and result.loops:
            loops = [result.loops.get(test.name) for test in tests]
            groups[LOOP] = [each.values(metric) if each else [] for each in loops]
        _horizontal(axes, [test.title for test in tests], groups, _colours())
        axes.set_title(f"{who}s", fontsize=10)
        axes.set_xlabel("CPU-s/GB")
    _legend(figure, [*[TITLES[peer] for peer in _peers(result)], *([LOOP] if result.loops else [])])
    return figure


def _over_time(result: Result) -> Figure | None:
    def lines(test: Test) -> bool:
        return any(each.rounds and each.rounds[-1].timelines for each in result.outcomes[test.name].values())

    tests = [test for name in OVER_TIME for test in result.tests if test.name == name and lines(test)][
        :PANELS_MAX
    ]
    if not tests:
        return None
    figure = Figure(figsize=(9, 1.0 + 2.1 * len(tests)), layout="constrained")
    panels = figure.subplots(len(tests), 1, squeeze=False)[:, 0]
    for axes, test in zip(panels, tests, strict=True):
        for peer, outcome in result.outcomes[test.name].items():
            timelines = outcome.rounds[-1].timelines if outcome.rounds else []
            # Consumers come first; some clients report no timeline.
            dashed = test.consumers if len(timelines) == test.producers + test.consumers else 0
            for number, line in enumerate(timelines):
                style = "--" if number < dashed and test.producers else "-"
                xs, ys = _rates_of(line)
                marker = "" if len(xs) > 2 else "o"  # a line of one point would be invisible
                axes.plot(xs, ys, marker + style, color=COLOURS[peer], alpha=0.9, linewidth=1.3, markersize=3)
        several = ", a line for each client" if test.producers + test.consumers > 1 else ""
        axes.set_title(test.title + several + (", consumers dashed" if test.consumers else ""), fontsize=10)
        axes.set_ylabel("records/s")
        axes.yaxis.set_major_formatter(FuncFormatter(_short))
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    _legend(figure, [TITLES[peer] for peer in _peers(result)])
    panels[-1].set_xlabel("seconds since the client began")
    return figure


def _rates_of(line: list[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """Returns steps of a timeline as (middle of the step, records a second in it)."""
    xs, ys = [], []
    for (began, before), (ended, after) in itertools.pairwise([(0.0, 0), *line]):
        # The last step of a load may be too short for a rate.
        if ended - began > 0.05:
            xs.append((began + ended) / 2)
            ys.append((after - before) / (ended - began))
    return xs, ys


def _latency(result: Result) -> Figure | None:
    """Draws both axes logarithmic: x is the share of records that took longer."""
    tests = [test for test in result.tests if test.kind == "latency"]
    if not any(each.rounds for test in tests for each in result.outcomes[test.name].values()):
        return None
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    for test in tests:
        lines = {peer: result.outcomes[test.name][peer].points("ms") for peer in result.outcomes[test.name]}
        styles = {peer: (TITLES[peer], COLOURS[peer], "o-") for peer in lines}
        if test.figure_2014:
            lines[THEN] = list(zip((50.0, 99.0, 99.9), test.figure_2014, strict=True))
            styles[THEN] = (THEN, THEN_COLOUR, "o--")
        for name, points in lines.items():
            label, colour, style = styles[name]
            xs = [1 / (1 - percentile / 100) for percentile, _ in points]
            axes.plot(xs, [ms for _, ms in points], style, label=label, color=colour, markersize=4)
            for x, (percentile, ms) in zip(xs, points, strict=True):
                if percentile in (50, 99, 99.9):
                    axes.annotate(
                        f"{ms:.3g}",
                        (x, ms),
                        xytext=AT[name],
                        textcoords="offset points",
                        ha="center",
                        fontsize=7,
                        color=colour,
                    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    shown = (50, 75, 90, 95, 99, 99.5, 99.9, 99.99)
    axes.set_xticks([1 / (1 - each / 100) for each in shown], [f"{each:g} %" for each in shown], fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.margins(y=0.15)
    axes.grid(which="major", axis="y", alpha=0.3)
    axes.set_xlabel("records that took at most this long")
    axes.set_ylabel("ms")
    axes.legend(frameon=False)
    return figure


def _sweep(result: Result, test: Test) -> Figure | None:
    found = next((each for each in SWEEPS if each[0] == test.kind), None)
    if found is None:
        return None
    _, label, metric, unit, logarithmic = found
    lines = {peer: each.points(metric) for peer, each in result.outcomes[test.name].items()}
    if not any(lines.values()):
        return None
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.subplots()
    for peer, points in lines.items():
        if points:
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, "o-", label=TITLES[peer], color=COLOURS[peer], markersize=4)
            if loop := result.outcomes[test.name][peer].points("loop_records_per_second"):
                label_of_loop = f"bare loop beside {TITLES[peer]}"
                axes.plot(*zip(*loop, strict=True), ":", label=label_of_loop, color=COLOURS[peer])
            if test.kind == "stored":
                median = statistics.median(ys)
                axes.axhspan(0.9 * median, 1.1 * median, color=COLOURS[peer], alpha=0.12, linewidth=0)
    if test.kind == "stored":
        axes.set_title("shaded: within 10 % of the median", fontsize=9)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xticks(test.values, [_short(each) for each in test.values])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    axes.yaxis.set_major_formatter(FuncFormatter(_short if unit == "records/s" else _grouped))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure
