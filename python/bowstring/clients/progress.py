"""Shows on a terminal or in a notebook how far a long read or write is."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

AFTER_S = 2.0
"""Work that ends sooner shows nothing."""
EVERY_S = 0.1


class Progress:
    """A bar on standard error for one read or write; a context.

    It appears after AFTER_S, and only where a person looks: standard error is a terminal, or the process runs
    a notebook. It goes away at the end. Without the package rich, which bowstring-client leaves out,
    there is none.

    Args:
        what: what the bar is named, such as "read flights".
        total: records that there are; None if unknown.
        shown: True: at once; False: never.
    """

    def __init__(self, what: str, total: int | None, shown: bool | None = None):
        self._what = what
        self._total = total
        self._is_shown = shown is not False and _is_watched()
        self._due_at = time.monotonic() + (0.0 if shown else AFTER_S)
        self._bar: Bar | None = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def is_due(self) -> bool:
        """Whether a person would see what `reach` shows now."""
        return self._is_shown and time.monotonic() >= self._due_at

    def reach(self, done: int) -> None:
        """Shows that `done` records of the total are done, if that is due.

        Args:
            done: number of records.
        """
        if not self.is_due:
            return
        if self._bar is None:
            try:
                self._bar = _bar()
            except ModuleNotFoundError:
                self._is_shown = False
                return
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        self._bar.update(self._task, completed=done)
        self._due_at = time.monotonic() + EVERY_S


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
