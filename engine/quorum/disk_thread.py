"""Runs work of the disk on one thread, in order, also while the interpreter ends."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, ParamSpec, TypeVar

from bowstring.engine.storage.open_files import take_last_descriptors

P = ParamSpec("P")
T = TypeVar("T")

_Work = tuple["Future[Any]", Callable[[], Any]]
_NAME: Final = "quorum-disk"


class DiskThread(Executor):
    """An executor with one thread, which the first work starts.

    The interpreter stops a `ThreadPoolExecutor` before it calls what is registered with `atexit`, and an
    embedded broker stops there: its metadata log needs the disk until then.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: Thread | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Has the thread call `fn`, behind all earlier work; returns the future of its result."""
        future: Future[T] = Future()
        self._waiting.put((future, partial(fn, *args, **kwargs)))
        if self._thread is None:
            self._thread = Thread(target=_work_off, args=(self._waiting,), name=_NAME, daemon=True)
            self._thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the thread behind all submitted work. Nothing may be submitted afterwards.

        Args:
            wait: Whether to return only when the thread has ended.
            cancel_futures: Not supported: work of the disk is done.
        """
        assert not cancel_futures, "work of the disk is done"
        if self._thread is not None:
            self._waiting.put(None)
            if wait:
                self._thread.join()


def _work_off(waiting: "SimpleQueue[_Work | None]") -> None:
    """Does work until there is a None instead."""
    take_last_descriptors()
    while (next_one := waiting.get()) is not None:
        future, work = next_one
        del next_one
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
        del future, work  # it may hold much, and the next may come late
