"""Handles signals of a broker's process.

SIGTERM, SIGINT and SIGHUP (a terminal that closes) stop the broker cleanly. Repeated signals do not shorten a
clean stop; only SIGKILL does. SIGQUIT prints the stack of every thread, as a JVM does, and the broker
continues.
"""

import asyncio
import faulthandler
import logging
import signal
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Final, Self

from bowstring.engine import event_log

_STDERR: Final = 2
_STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Handles signals inside the ``with`` block, in the main thread; `wait` returns when one requests a stop.

    If the block ends after a stop, signals are ignored, because the process is about to end with its own exit
    status. If it ends after a failed start, the previous handlers are restored.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._telling = False
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Event | None = None

    def __enter__(self) -> Self:
        for each in _STOPS:
            # nohup sets SIG_IGN for programs that must outlive their terminal.
            if each is signal.SIGHUP and signal.getsignal(each) is signal.SIG_IGN:
                continue
            self._install(each, self._handle)
        self._install(signal.SIGQUIT, self._show_threads)
        return self

    def _install(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        self._before[number] = signal.signal(number, handler)
        signal.siginterrupt(number, False)  # otherwise writing a log line fails with EINTR

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each, before in self._before.items():
            signal.signal(each, before if self.first is None else signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.first is not None:
            said = (
                "already stopping; SIGKILL would end the broker at once, and the next start would recover "
                "the logs"
            )
            self._alone(partial(event_log.from_signal_handler, logging.WARNING, said, signal=name))
            return
        self.first = signal.Signals(number)
        if self._loop is None or self._asked is None:
            event_log.from_signal_handler(
                logging.INFO, "stopping as soon as the start is complete", signal=name
            )
        else:
            self._loop.call_soon_threadsafe(self._asked.set)

    def _show_threads(self, number: int, frame: FrameType | None) -> None:
        # faulthandler.register is unsafe here: it walks the threads without the GIL, and crashes when one
        # ends.
        self._alone(partial(faulthandler.dump_traceback, _STDERR))

    def _alone(self, tell: Callable[[], None]) -> None:
        """Runs `tell` unless it is already running: signals interrupt handlers, and many at once must not
        fill the stack.
        """
        if self._telling:
            return
        self._telling = True
        try:
            tell()
        finally:
            self._telling = False

    async def wait(self) -> signal.Signals:
        """Waits for the first signal that requests a stop; returns at once if it has already arrived."""
        self._asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self.first is None:
            await self._asked.wait()
        assert self.first is not None
        return self.first
