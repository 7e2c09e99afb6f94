"""Finds out how long callbacks keep an event loop from others: its heartbeats and votes have deadlines."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


class Pauses:
    """Callbacks of asyncio's own loop by the processor time that they took, in ms; their thread may have waited longer
    for its turn on a busy machine.
    """

    def __init__(self) -> None:
        self.longest: list[tuple[float, str]] = []

    @property
    def longest_ms(self) -> float:
        return max((each for each, _ in self.longest), default=0.0)


@contextmanager
def measured() -> Iterator[Pauses]:
    """Measures the callbacks that run inside the block."""
    pauses = Pauses()
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time_ns()
        run(handle)
        took_ms = (time.thread_time_ns() - began) / 1e6
        if took_ms > 5:
            pauses.longest.append((round(took_ms, 1), repr(handle)))

    with mock.patch.object(asyncio.Handle, "_run", timed):
        yield pauses
