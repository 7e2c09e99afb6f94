"""The display of a run in progress."""

import io

from rich.console import Console

from bench.kreps import live
from bench.kreps.catalogue import TESTS
from bench.kreps.live import Live
from bench.kreps.loads import Order
from bench.kreps.measure import Snapshot
from bench.kreps.run import Plan


def shown(monkeypatch, clock, *snapshots):
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    plan = Plan([TESTS["producers-3-async"], TESTS["both"]], ["kafka", "bowstring"], "native", brokers=3)
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    with Live(plan, console) as view:
        view.progress(plan.tests[0], "kafka", 1, None)
        for snapshot in snapshots:
            view.progress(plan.tests[0], "kafka", 1, snapshot)
            clock[0] += 1
    return console.file.getvalue().rpartition("async")[2]


def test_rates_latency_and_replicas_in_sync(monkeypatch):
    orders = [Order("produce", "h:1", "t", 1_000_000, 100)] * 2
    text = shown(
        monkeypatch,
        [100.0],
        Snapshot(orders, [0, 0], [None, None], None),
        Snapshot(orders, [250_000, 0], [1.25, None], (2, 3)),
    )
    assert "1/12" in text, "3 rounds of two tests on two brokers"
    assert "in sync 2/3" in text and "ack 1.25 ms" in text
    assert "producer 1" in text and "250,000/s" in text and " 0/s" not in text
