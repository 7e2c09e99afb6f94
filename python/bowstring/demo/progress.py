"""Shows the demo's progress: a line for each part, and the present rate of each of the headline's
producers.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

RATE_WINDOW_S = 0.5


class _RateOrCount(ProgressColumn):
    """Shows records/s if a line has a rate, else the count and the total."""

    def __init__(self) -> None:
        super().__init__()
        self._count = MofNCompleteColumn()

    def render(self, task: Task) -> Text:
        """See ProgressColumn."""
        rate = task.fields.get("rate")
        if rate is None:
            return self._count.render(task)
        return Text(f"{rate:,.0f}/s", style="bold green")


class Bars(Progress):
    """The progress display."""

    def __init__(self, console: Console):
        super().__init__(
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=32),
            TaskProgressColumn(),
            _RateOrCount(),
            TimeElapsedColumn(),
            console=console,
        )


class Bar:
    """One line of it."""

    def __init__(self, bars: Bars, what: str, total: float | None):
        self._bars = bars
        self._task = bars.add_task(what, total=total)

    def by(self, count: float) -> None:
        """Advances by `count`."""
        self._bars.advance(self._task, count)

    def to(self, count: float) -> None:
        """Advances to `count`."""
        self._bars.update(self._task, completed=_tidy(count))

    def finish(self, total: float) -> None:
        """Completes the line; `total` is the final count."""
        self._bars.update(self._task, total=total, completed=total)


class RateBars:
    """One line for each of several concurrent producers, with its rate of the last half second."""

    def __init__(self, bars: Bars, names: list[str], total: int):
        self._bars = bars
        self._tasks = [bars.add_task(name, total=total, rate=0.0) for name in names]
        self._before = [(time.monotonic(), 0) for _ in names]

    def to(self, number: int, count: int) -> None:
        """Advances one of them to `count`."""
        now = time.monotonic()
        at, before = self._before[number]
        self._bars.update(self._tasks[number], completed=count)
        if now - at >= RATE_WINDOW_S:
            self._bars.update(self._tasks[number], rate=(count - before) / (now - at))
            self._before[number] = now, count

    def finish(self, rates: list[float]) -> None:
        """Completes all lines with their overall rates."""
        for task, rate in zip(self._tasks, rates, strict=True):
            self._bars.update(task, rate=rate)
            self._bars.stop_task(task)


def _tidy(count: float) -> Any:
    return int(count) if float(count).is_integer() else round(count, 1)
