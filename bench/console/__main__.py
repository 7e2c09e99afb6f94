"""Runs `python -m bench.console`: prints the time of each page of the console, and what live pages cost.

The broker has `--topics` topics of `--partitions` partitions and `--groups` groups. Paths in the arguments
replace the pages that the application has. `--small` is a size for tests of this module.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from html import unescape
from pathlib import Path
from typing import NamedTuple

from bench.bar_limits import at_most
from bench.console.pages import Console, running_console
from bench.console.tail import TailCost, tail_cost
from bench.console.views import views
from bench.peers.bowstring import Bowstring
from bench.procfs import Meter, cpu_seconds, memory
from bowstring import Admin, Producer

TOPICS_PER_REQUEST = 100
MIB = 1 << 20
AGAIN = 5
"""Loads of a page after the first: their median and their longest are shown."""
PAUSE_S = 0.05
WINDOWS = 3
"""In which the CPU of a live page is measured: what the broker does now and then falls in one of them."""
SETTLE_S, LOOK_S, QUIET_LOOKS, QUIET_SHARE = 120.0, 0.5, 20, 0.01


class Row(NamedTuple):
    """The times of one page, in ms; `first` fills the console's caches."""

    path: str
    status: int
    first_ms: float
    median_ms: float
    longest_ms: float
    kib: float


class Cost(NamedTuple):
    """CPU while the event stream of a page is open, in percent of a core: the median of some windows."""

    path: str
    broker_percent: float
    console_percent: float


def main(arguments: list[str] | None = None) -> tuple[list[Row], list[Cost]]:
    """Runs the bench; returns the rows that it prints."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="bowstring-console-") as folder, Bowstring(Path(folder)) as peer:
        servers = f"127.0.0.1:{peer.port}"
        with Admin(servers, timeout_ms=120_000) as admin:
            _fill(admin, options)
        with Producer(servers) as producer:
            producer.send("many-00000", b'{"id": 1}', partition=0).result()
        _settle(peer.pid, min(SETTLE_S, 10 * options.seconds))
        with running_console(servers) as console:
            chosen = options.paths or views("many-00000", ["group-0000"])
            rows = [row for path in chosen if (row := _measure(console, path)) is not None]
            streams = {
                unescape(path): None
                for row in rows
                for path in re.findall(r'data-live="([^"]+)"', console.get(row.path).body.decode())
            }
            costs = [_cost(console, peer.pid, path, options.seconds) for path in streams]
            rss_mib = memory(console.pid).rss_bytes / MIB
            tail = tail_cost(console, servers, "many-00001", options.rate, options.seconds)
            print(f"| tail: sent, shown | {tail.sent:,.0f}, {tail.shown:,.0f} records/s |")
            _judge(rows, costs, tail, console.start_seconds, rss_mib)
    return rows, costs


def _judge(rows: list[Row], costs: list[Cost], tail: TailCost, start_seconds: float, rss_mib: float) -> None:
    """Prints the figures that have bars."""
    slowest = max(rows, key=lambda row: row.median_ms)
    dearest = max(costs, key=lambda cost: cost.broker_percent)
    figures = (
        ("start", start_seconds, at_most(0.6, "s")),
        ("memory", rss_mib, at_most(80, "MiB")),
        (f"slowest page ({slowest.path})", slowest.median_ms, at_most(300, "ms")),
        (f"broker, {dearest.path} open", dearest.broker_percent, at_most(2, "% of a core")),
        ("console, tail of a busy topic", tail.console_percent, at_most(20, "% of a core")),
    )
    for name, measured, bar in figures:
        excess = bar.excess(measured, None)
        verdict = "met" if excess is not None and excess <= 1 else "missed"
        print(f"| {name} | {measured:.2f} | {bar.text} | {verdict} |")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.console")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each live page is open")
    parser.add_argument("--rate", type=int, default=500_000, help="records/s of the topic whose tail is open")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args(arguments)
    if options.small:
        options.topics, options.partitions, options.groups = 20, 2, 5
        options.seconds, options.rate = 0.1, 1000
    return options


def _fill(admin: Admin, options: argparse.Namespace) -> None:
    from bowstring.clients.admin.results import NewTopic
    from bowstring.clients.records import TopicPartition

    names = [f"many-{number:05d}" for number in range(options.topics)]
    for at in range(0, len(names), TOPICS_PER_REQUEST):
        admin.create_topics(
            [NewTopic(name, options.partitions, 1) for name in names[at : at + TOPICS_PER_REQUEST]]
        )
    for number in range(options.groups):
        read = names[number % len(names) :][:5]
        offsets = {
            TopicPartition(name, partition): 0 for name in read for partition in range(options.partitions)
        }
        admin.alter_offsets(f"group-{number:04d}", offsets)


def _settle(broker: int, most_s: float) -> None:
    """Waits until the broker has done what the new topics and groups give it to do."""
    until = time.monotonic() + most_s
    quiet = 0
    while quiet < QUIET_LOOKS and time.monotonic() < until:
        before = cpu_seconds(broker)
        time.sleep(LOOK_S)
        quiet = quiet + 1 if cpu_seconds(broker) - before < QUIET_SHARE * LOOK_S else 0


def _measure(console: Console, path: str) -> Row | None:
    first = console.get(path)
    if first.kind != "text/html":
        return None
    times = []
    for _ in range(AGAIN):
        time.sleep(PAUSE_S)
        times.append(console.get(path).seconds * 1000)
    row = Row(
        path,
        first.status,
        first.seconds * 1000,
        statistics.median(times),
        max(times),
        len(first.body) / 1024,
    )
    print(
        f"| {row.path} | {row.status} | {row.first_ms:.0f} ms | {row.median_ms:.0f} ms | "
        f"{row.longest_ms:.0f} ms | {row.kib:.0f} KiB |",
        flush=True,
    )
    return row


def _cost(console: Console, broker: int, path: str, seconds: float) -> Cost:
    with console.stream(path) as answer:
        answer.read1()
        time.sleep(min(2.0, seconds))
        windows = [_shares(broker, console.pid, seconds) for _ in range(WINDOWS)]
    cost = Cost(path, *(statistics.median(each) for each in zip(*windows, strict=True)))
    most = max(broker for broker, _ in windows)
    print(
        f"| {path} open | broker {cost.broker_percent:.1f} % (at most {most:.1f} %) | "
        f"console {cost.console_percent:.1f} % of a core |",
        flush=True,
    )
    return cost


def _shares(broker: int, console: int, seconds: float) -> tuple[float, float]:
    """Measures both processes for a while, in percent of a core."""
    with Meter(broker) as of_broker, Meter(console) as of_console:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.1)
    broker_percent, console_percent = (
        100 * meter.cpu_seconds / meter.wall_seconds for meter in (of_broker, of_console)
    )
    return broker_percent, console_percent


if __name__ == "__main__":
    main(sys.argv[1:])
