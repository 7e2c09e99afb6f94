"""A client that one thread uses at a time says so when two do, instead of mixing up their answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from bowstring.clients import forks
from bowstring.clients.errors import ClientError, ClosedError, ForkedError


class OneThread:
    """Held during each call of a client. Entering it from a second thread, or after close, raises.

    Attributes:
        closed: set by the client's close().
    """

    def __init__(self, what: str):
        self._what = what
        self._lock = threading.Lock()
        self._lent_to: int | None = None
        self._depth = 0
        self.closed = False
        self._forked: ForkedError | None = None
        forks.watch(self)

    def after_fork(self, error: ForkedError) -> None:
        """In a forked child: closed, and the thread that held it is not there."""
        self._lock = threading.Lock()
        self._lent_to = None
        self._depth = 0
        self._forked = error
        self.closed = True

    def __enter__(self) -> None:
        if self._lent_to == threading.get_ident():
            self._depth += 1
            return
        if self.closed:
            raise self.closed_error()
        if not self._lock.acquire(blocking=False):
            raise ClientError(f"this {self._what} is in use by another thread; give each thread its own")

    def closed_error(self) -> ClosedError:
        """What using it after the end has to raise."""
        return self._forked or ClosedError(f"this {self._what} is closed")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth:
            self._depth -= 1
        else:
            self._lock.release()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The user's callback, called within a call, may call the client itself."""
        before, self._lent_to = self._lent_to, threading.get_ident()
        try:
            yield
        finally:
            self._lent_to = before
