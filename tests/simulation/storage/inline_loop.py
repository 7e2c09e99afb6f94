"""An event loop whose executors are its own thread, in simulated time."""

import asyncio
import selectors
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

from bowstring.engine.quorum.disk_thread import DiskThread

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

# Native code has the real clocks.
_WALL_NS: Final = time.time_ns()
_MONOTONIC_NS: Final = time.monotonic_ns()


class Clock:
    """Time that passes only while a loop waits."""

    def __init__(self) -> None:
        self._elapsed_ns = 0

    def time_ns(self) -> int:
        """The time of day."""
        return _WALL_NS + self._elapsed_ns

    def monotonic_ns(self) -> int:
        """Steady time."""
        return _MONOTONIC_NS + self._elapsed_ns

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._elapsed_ns += round(seconds * 1e9) + 1


class _Selector(selectors.DefaultSelector):
    """Waits in simulated time: nothing happens outside of the loop's thread."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("no timer and no task ends this wait")
        if not ready and timeout is not None and timeout > 0:
            self._clock.advance(timeout)
        return ready


class InlineLoop(asyncio.SelectorEventLoop):
    """The loop of one life of a broker.

    Attributes:
        delay: How many turns of the loop an executor's thread waits for a processor: then other tasks run.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(_Selector(clock))
        self.delay: Callable[[], int] = lambda: 0
        self._clock = clock
        self._queues: dict[Any, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = {}

    def time(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.create_future()
        work = future, partial(func, *args)
        if isinstance(executor, DiskThread):
            queue = self._queues.setdefault(executor, deque())
            queue.append(work)
            if len(queue) == 1:
                self._run_later(self.delay(), partial(self._run_next, queue))
        else:
            self._run_later(self.delay(), partial(_run, *work))
        return future

    def _run_next(self, queue: deque[tuple["asyncio.Future[Any]", Callable[[], Any]]]) -> None:
        """Does the next work of an executor with one thread, which keeps the order."""
        _run(*queue[0])
        queue.popleft()
        if queue:
            self._run_later(self.delay(), partial(self._run_next, queue))

    def _run_later(self, turns: int, work: Callable[[], None]) -> None:
        if turns > 0:
            self.call_soon(self._run_later, turns - 1, work)
        else:
            work()


def _run(future: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
