"""Runs the demo: replays real events through an embedded broker and checks them, measures speed, runs Spark
and the headline, the latter also on three brokers with three replicas.

`make run` runs it.

Imported by: cli.
May import: _native.record, broker, clients, clients.admin, clients.consumer, clients.producer, cluster,
spark.
"""

from __future__ import annotations

import json as json_module
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from bowstring.broker import Broker
from bowstring.clients.admin.admin import Admin
from bowstring.demo import (
    flights,
    headline,
    headline_read,
    replay,
    replicated,
    spark_job,
    spark_session,
    throughput,
)
from bowstring.demo.progress import Bar, Bars, RateBars
from bowstring.demo.report import Figures, print_result

FLIGHTS_TOPIC = "flights"
PUSH_TOPIC = "push"
LATENCY_TOPIC = "latency"
PARTITIONS = 3
HEADLINE_RECORDS = 5_000_000

# The flights are from 2013: retention by time would delete them at once.
FLIGHTS_CONFIGS = {"retention.ms": "-1"}
# Ten seconds of pushing may be gigabytes: retention must delete the oldest segments meanwhile.
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
    headline_records: int = HEADLINE_RECORDS,
    json: bool = False,
    picture: Path | None = None,
    spark: bool = True,
) -> bool:
    """Runs the demo; returns True when all records came back unchanged and Spark counted them correctly.

    Args:
        push_seconds: how long 100-byte records are pushed.
        flights_max: replay only this many flights.
        headline_records: of each of the headline's three producers; fewer if the disk is too small. Into
            three brokers each sends no more than replicated.RECORDS_MAX.
        json: print figures as JSON and nothing else.
        picture: where to save the output, as SVG.
        spark: whether Spark counts the flights and reads what the headline's producers wrote.

    Raises:
        ConfigError: the flights are not installed; the message says how.
        ProducerError: one of the headline's producers failed.
    """
    data = flights.data_file()
    console = Console(quiet=json, record=picture is not None, highlight=False)
    started = time.monotonic()
    with Broker(config=BROKER_CONFIG) as broker:
        ready_ms = (time.monotonic() - started) * 1000
        console.print(
            f"[bold]Bowstring[/] is ready on [cyan]{broker.bootstrap_servers}[/] after {ready_ms:.0f} ms\n"
        )
        with Bars(console) as bars:
            figures = _flights_and_speed(bars, broker.bootstrap_servers, data, push_seconds, flights_max)
            figures.ready_ms = ready_ms
            records = headline.records_that_fit(headline_records, broker.data_dir)
            _spark_and_headline(bars, broker, figures, records, spark=spark)
    with Bars(console) as bars:
        _replicated(bars, figures, headline_records)
    if json:
        print(json_module.dumps(figures.as_json(), indent=2))
    else:
        print_result(console, figures)
    if picture is not None:
        console.save_svg(str(picture), title="make run")
    return not figures.problems


def _flights_and_speed(
    bars: Bars, bootstrap: str, data: Path, push_seconds: float, flights_max: int | None
) -> Figures:
    expected = spark_job.FileCount()
    ledger = _replay(bars, bootstrap, data, flights_max, expected)
    with Admin(bootstrap) as admin:
        admin.create_topic(PUSH_TOPIC, PARTITIONS, configs=PUSH_CONFIGS)
        admin.create_topic(LATENCY_TOPIC, 1)
        bar = Bar(bars, f"pushing for {push_seconds:g} s", push_seconds)
        rate_in = throughput.push(bootstrap, PUSH_TOPIC, push_seconds, bar.to)
        bar = Bar(bars, "reading it back", None)
        rate_out = throughput.pull(bootstrap, PUSH_TOPIC, bar.to)
        bar.finish(rate_out.records)
        # The headline needs the disk space.
        admin.delete_topics([PUSH_TOPIC])
    bar = Bar(bars, "one record at a time", throughput.WARM_UP + throughput.ROUND_TRIPS)
    trips = throughput.round_trips(bootstrap, LATENCY_TOPIC, bar.to)
    bar.finish(throughput.WARM_UP + throughput.ROUND_TRIPS)
    return Figures(ledger, expected, rate_in, rate_out, trips)


def _spark_and_headline(bars: Bars, broker: Broker, figures: Figures, records: int, *, spark: bool) -> None:
    """Runs the Spark count, the three producers, and the Spark read; without Spark only the producers."""
    bootstrap = broker.bootstrap_servers
    session: AbstractContextManager[spark_session.DemoSpark | None]
    session = spark_session.opened() if spark else nullcontext()
    with session as opened:
        if opened is not None:
            bar = Bar(bars, "Spark counts the flights", sum(figures.expected.hours.values()))
            figures.counted = spark_job.run(opened, bootstrap, FLIGHTS_TOPIC, figures.expected, bar.to)
            bar.finish(figures.counted.counted)
        rates = RateBars(bars, [f"producer {number + 1}" for number in range(headline.PRODUCERS)], records)
        figures.headline = headline.run(bootstrap, records, rates.to, broker.data_dir)
        rates.finish([each.records_per_s for each in figures.headline.runs])
        if opened is not None:
            bar = Bar(bars, "Spark reads what they wrote", None)
            figures.read = headline_read.read(opened, bootstrap, figures.headline)
            bar.finish(figures.read.records)


def _replicated(bars: Bars, figures: Figures, records: int) -> None:
    """Runs the producers again, into three brokers with three replicas of everything."""
    with TemporaryDirectory(prefix="bowstring-demo-") as folder:
        fit = replicated.records_that_fit(records, Path(folder))
        rates = RateBars(bars, [f"3 replicas, producer {n + 1}" for n in range(headline.PRODUCERS)], fit)
        figures.replicated = replicated.run(fit, rates.to, folder=Path(folder))
    if figures.replicated.runs:
        rates.finish([each.records_per_s for each in figures.replicated.runs])


def _replay(
    bars: Bars, bootstrap: str, data: Path, flights_max: int | None, expected: spark_job.FileCount
) -> replay.Ledger:
    with Admin(bootstrap) as admin:
        admin.create_topic(FLIGHTS_TOPIC, PARTITIONS, configs=FLIGHTS_CONFIGS)
    ledger = replay.Ledger()
    total = min(flights.FLIGHTS, flights_max or flights.FLIGHTS)
    events = [event for _, event in zip(range(total), flights.events(data), strict=False)]
    # The file is ordered January, October, November, …; replay in order of time.
    events.sort(key=lambda event: event.timestamp)
    for event in events:
        expected.note(event)
    bar = Bar(bars, "flights into the topic", total)
    replay.send(bootstrap, FLIGHTS_TOPIC, events, ledger, bar.by)
    bar = Bar(bars, "and back, each one checked", total)
    replay.read_back(bootstrap, FLIGHTS_TOPIC, ledger, bar.by)
    return ledger
