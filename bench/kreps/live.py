"""Progress while a run goes on: which test, which peer, which round, and how many records a second now."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.kreps.catalogue import Test
from bench.kreps.run import Plan


class Live:
    """Bars on standard error: one for the run, one for each load; plain lines where there is no terminal."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<52}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        steps = len(plan.tests) * len(plan.peers) * plan.rounds
        self._whole = self._bars.add_task("kreps", total=steps, rate="")
        self._loads: list[TaskID] = []
        self._step = ("", "", 0)
        self._before: tuple[float, list[int]] = (0.0, [])

    def __enter__(self) -> Live:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def progress(self, test: Test, peer: str, number: int, records: list[int]) -> None:
        """See bench.kreps.run.Progress."""
        now = time.monotonic()
        if (test.name, peer, number) != self._step:
            self._step = (test.name, peer, number)
            self._bars.advance(self._whole)
            if not self._console.is_terminal:
                self._console.print(f"{test.title}: {peer}, round {number}", highlight=False)
        if len(records) != len(self._loads):
            for each in self._loads:
                self._bars.remove_task(each)
            self._loads = [self._bars.add_task("", total=None, rate="") for _ in records]
            self._before = (now, records)
            return
        at, counts = self._before
        if now - at < 0.2:
            return
        for each, count, before in zip(self._loads, records, counts, strict=True):
            rate = (count - before) / (now - at)
            title = f"{test.title}, {peer}, round {number}"
            self._bars.update(each, description=title, rate=f"{rate:>12,.0f}/s", completed=count)
        self._before = (now, records)
