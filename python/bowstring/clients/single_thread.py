"""Detects the use of a client by two threads at once, and raises instead of mixing up answers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from bowstring.clients import forks
from bowstring.clients.errors import ClientError, ClosedError, ForkedError


class SingleThread:
    """Held during each call of a client. Entering it from a second thread, or after close, raises.

    An exception of a signal handler, such as KeyboardInterrupt, may come between two steps of `__exit__`. So
    the holder is remembered with the frame of its `with` statement: a holder whose frame has ended is gone.

    Attributes:
        closed: set by the client's close().
    """

    def __init__(self, what: str):
        self._what = what
        self._holder: tuple[int, FrameType] | None = None
        self._lent_to: int | None = None
        self._depth = 0
        self.closed = False
        self._forked: ForkedError | None = None
        forks.watch(self)

    def after_fork(self, error: ForkedError) -> None:
        """Marks it closed in a forked child: the thread that held it does not exist there."""
        self._holder = None
        self._lent_to = None
        self._depth = 0
        self._forked = error
        self.closed = True

    def __enter__(self) -> None:
        asks = (threading.get_ident(), sys._getframe(1))
        if self._lent_to == asks[0]:
            self._depth += 1
            return
        if self.closed:
            raise self.closed_error()
        # No call between the test for an owner and the store: neither a thread nor a signal comes between.
        if self._holder is not None and not self._is_left_behind(asks[0]):
            raise ClientError(f"this {self._what} is in use by another thread; create one for each thread")
        self._holder = asks

    def _is_left_behind(self, thread: int) -> bool:
        """Whether the holder is an interrupted call of this thread: its frame is not on the stack."""
        held = self._holder
        if held is None or held[0] != thread:
            return False
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not held[1]:
            frame = frame.f_back
        if frame is not None:
            return False
        self._depth = 0
        return True

    def closed_error(self) -> ClosedError:
        """Returns the error for use after close."""
        return self._forked or ClosedError(f"this {self._what} is closed")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth:
            self._depth -= 1
        else:
            self._holder = None

    def lending(self, callback: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
        """Wraps a user's callback of one argument, so that it may call the client itself."""
        if not callable(callback):
            return callback

        def call(argument: Any) -> object:
            with self.lent():
                return callback(argument)

        return call

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lets the user's callback, called within a call, call the client itself."""
        before, self._lent_to = self._lent_to, threading.get_ident()
        try:
            yield
        finally:
            self._lent_to = before
