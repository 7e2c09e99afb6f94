"""Calls functions in a thread that does not keep the program from ending."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]]"


class DaemonWorker:
    """One thread, which begins with its first function. Unlike those of executors it is a daemon.

    Belongs to one thread or event loop.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Has a function called after those before it; not after `close`."""
        if self._thread is None:
            self._thread = threading.Thread(target=_call, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._jobs.put((future, function))
        return future

    def close(self, error: Exception) -> None:
        """Ends the thread after the function that runs; those that wait fail with an error."""
        while not self._jobs.empty():
            with contextlib.suppress(queue.Empty):  # the thread was quicker
                job = self._jobs.get_nowait()
                if job is not None and job[0].set_running_or_notify_cancel():
                    job[0].set_exception(error)
        self._jobs.put(None)


def _call(jobs: queue.SimpleQueue[_Job | None]) -> None:
    job = jobs.get()
    while job is not None:
        future, function = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
        del job, future, function  # what they hold may be large, and the next one may come late
        job = jobs.get()
