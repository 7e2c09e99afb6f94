"""Shows progress during a run: its position, and the rate and in-sync replicas of each load."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.kreps.catalogue import Test
from bench.kreps.measure import Snapshot
from bench.kreps.run import Plan, why_not

UPDATE_SECONDS = 0.2
VERBS = {"produce": "producer", "consume": "consumer", "latency": "round trips"}


class Live:
    """Bars on standard error: one for the run, one for each load; plain lines without a terminal.

    Args:
        plan: The plan of the run.
        console: Where it is shown; default: standard error.
    """

    def __init__(self, plan: Plan, console: Console | None = None):
        self._console = console or Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<50}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rate]:>13}"),
            TextColumn("{task.fields[note]:<18}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        ran = sum(not why_not(test, plan.cluster_size(test)) for test in plan.tests)
        self._steps = ran * len(plan.peers) * plan.rounds
        self._done = -1
        self._whole = self._bars.add_task("warming up", total=self._steps, rate="", note="")
        self._loads: list[TaskID] = []
        self._before: tuple[float, list[int]] = (0.0, [])

    def __enter__(self) -> Live:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def progress(self, test: Test, peer: str, number: int, now: Snapshot | None) -> None:
        """See bench.kreps.run.Progress."""
        if now is None:
            self._done += 1
            title = f"{test.title}, {peer}, round {number}"
            self._bars.update(
                self._whole,
                completed=self._done,
                description=title,
                rate=f"{self._done + 1}/{self._steps}",
                note="",
            )
            if not self._console.is_terminal:
                self._console.print(f"{self._done + 1}/{self._steps} {title}", highlight=False)
            self._show(Snapshot([], [], [], None))
        else:
            self._show(now)

    def _show(self, now: Snapshot) -> None:
        at = time.monotonic()
        if len(now.orders) != len(self._loads) or any(
            records < before for records, before in zip(now.records, self._before[1], strict=True)
        ):
            for each in self._loads:
                self._bars.remove_task(each)
            self._loads = [
                self._bars.add_task(f"  {VERBS[order.verb]} {n}", total=order.records, rate="", note="")
                for n, order in enumerate(now.orders, 1)
            ]
            self._before = (at, now.records)
            return
        if not now.orders or at - self._before[0] < UPDATE_SECONDS:
            return
        for each, records, before, latency_ms in zip(
            self._loads, now.records, self._before[1], now.latencies_ms, strict=True
        ):
            rate = (records - before) / (at - self._before[0])
            note = "" if latency_ms is None else f"ack {latency_ms:.3g} ms"
            # Some clients report nothing until they end.
            self._bars.update(each, rate=f"{rate:,.0f}/s" if records else "", note=note, completed=records)
        if now.in_sync is not None:
            self._bars.update(self._whole, note=f"in sync {now.in_sync[0]}/{now.in_sync[1]}")
        self._before = (at, now.records)
