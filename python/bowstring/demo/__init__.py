"""The demo: real events through an embedded broker and back, checked, its speed, and Spark over the topic.

`make run` runs it.
"""

from __future__ import annotations

import json as json_module
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from bowstring.broker import Broker
from bowstring.clients.admin import Admin
from bowstring.demo import flights, push, replay, spark_job
from bowstring.demo.report import Figures, print_result

FLIGHTS_TOPIC = "flights"
PUSH_TOPIC = "push"
LATENCY_TOPIC = "latency"
PARTITIONS = 3

# The flights are of 2013: by time they would be old enough to go at once.
FLIGHTS_CONFIGS = {"retention.ms": "-1"}
# Ten seconds of pushing may be gigabytes: the oldest segments go while new ones come.
BROKER_CONFIG = {"log.retention.check.interval.ms": 1000}
PUSH_CONFIGS = {
    "retention.bytes": str(256 << 20),
    "segment.bytes": str(64 << 20),
    "file.delete.delay.ms": "1000",
}


def run(
    *,
    push_seconds: float = 10,
    flights_max: int | None = None,
    json: bool = False,
    picture: Path | None = None,
    spark: bool = True,
) -> bool:
    """Runs the demo; True when every flight came back as it went in and Spark counted them right.

    Args:
        push_seconds: how long 100-byte records are pushed.
        flights_max: replay only so many flights.
        json: print figures as JSON and nothing else.
        picture: where to save what was printed, as SVG.
        spark: whether Spark counts the flights in the end.

    Raises:
        ConfigError: the flights are not installed; the message says how.
    """
    data = flights.data_file()
    console = Console(quiet=json, record=picture is not None, highlight=False)
    started = time.monotonic()
    with Broker(config=BROKER_CONFIG) as broker:
        ready_ms = (time.monotonic() - started) * 1000
        console.print(
            f"[bold]Bowstring[/] is ready on [cyan]{broker.bootstrap_servers}[/] after {ready_ms:.0f} ms\n"
        )
        figures = _with_bars(
            console,
            broker.bootstrap_servers,
            data,
            push_seconds=push_seconds,
            flights_max=flights_max,
            spark=spark,
        )
    figures.ready_ms = ready_ms
    if json:
        print(json_module.dumps(figures.as_json(), indent=2))
    else:
        print_result(console, figures)
    if picture is not None:
        console.save_svg(str(picture), title="make run")
    return not figures.problems


def _with_bars(
    console: Console,
    bootstrap: str,
    data: Path,
    *,
    push_seconds: float,
    flights_max: int | None,
    spark: bool,
) -> Figures:
    with Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(bar_width=32),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as bars:
        expected = spark_job.FileCount()
        ledger = _replay(bars, bootstrap, data, flights_max, expected)
        with Admin(bootstrap) as admin:
            admin.create_topic(PUSH_TOPIC, PARTITIONS, configs=PUSH_CONFIGS)
            admin.create_topic(LATENCY_TOPIC, 1)
        bar = _Bar(bars, f"pushing for {push_seconds:g} s", push_seconds)
        rate_in = push.push(bootstrap, PUSH_TOPIC, push_seconds, bar.to)
        bar = _Bar(bars, "reading it back", None)
        rate_out = push.pull(bootstrap, PUSH_TOPIC, bar.to)
        bar.finish(rate_out.records)
        bar = _Bar(bars, "one record at a time", push.WARM_UP + push.ROUND_TRIPS)
        trips = push.round_trips(bootstrap, LATENCY_TOPIC, bar.to)
        bar.finish(push.WARM_UP + push.ROUND_TRIPS)
        counted = _count(bars, bootstrap, expected) if spark else None
    return Figures(ledger, rate_in, rate_out, trips, counted)


def _count(bars: Progress, bootstrap: str, expected: spark_job.FileCount) -> spark_job.SparkResult:
    bar = _Bar(bars, "Spark counts the flights", sum(expected.hours.values()))
    found = spark_job.run(bootstrap, FLIGHTS_TOPIC, expected, bar.to)
    bar.finish(found.counted)
    return found


def _replay(
    bars: Progress, bootstrap: str, data: Path, flights_max: int | None, expected: spark_job.FileCount
) -> replay.Ledger:
    with Admin(bootstrap) as admin:
        admin.create_topic(FLIGHTS_TOPIC, PARTITIONS, configs=FLIGHTS_CONFIGS)
    ledger = replay.Ledger()
    total = min(flights.FLIGHTS, flights_max or flights.FLIGHTS)
    events = [event for _, event in zip(range(total), flights.events(data), strict=False)]
    # The file goes January, October, November, …; they happened in order of time.
    events.sort(key=lambda event: event.timestamp)
    for event in events:
        expected.note(event)
    bar = _Bar(bars, "flights into the topic", total)
    replay.send(bootstrap, FLIGHTS_TOPIC, events, ledger, bar.by)
    bar = _Bar(bars, "and back, each one checked", total)
    replay.read_back(bootstrap, FLIGHTS_TOPIC, ledger, bar.by)
    return ledger


class _Bar:
    """One line of the progress display."""

    def __init__(self, bars: Progress, what: str, total: float | None):
        self._bars = bars
        self._task = bars.add_task(what, total=total)

    def by(self, count: float) -> None:
        """So much further."""
        self._bars.advance(self._task, count)

    def to(self, count: float) -> None:
        """So far."""
        self._bars.update(self._task, completed=_tidy(count))

    def finish(self, total: float) -> None:
        """Done; this was all."""
        self._bars.update(self._task, total=total, completed=total)


def _tidy(count: float) -> Any:
    return int(count) if float(count).is_integer() else round(count, 1)
