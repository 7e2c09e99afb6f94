"""Runs the same work on many items on several threads."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

_LOGS_PER_THREAD: Final = 64

T = TypeVar("T")


def threads_for(logs: int, most: int) -> int:
    """Returns how many threads are worth starting for this many logs."""
    return max(1, min(most, logs // _LOGS_PER_THREAD))


def run_on_threads(work: Callable[[T], object], items: Sequence[T], threads: int) -> None:
    """Runs `work` for each item on several threads, the calling one included; raises the first error."""
    pending = iter(items)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def drain() -> None:
        while not errors:
            with lock:
                item = next(pending, None)
            if item is None:
                return
            try:
                work(item)
            except BaseException as error:
                errors.append(error)

    helpers = []
    for _ in range(threads - 1):
        helper = threading.Thread(target=drain)
        try:
            helper.start()
        except RuntimeError:
            break  # the interpreter is shutting down: the calling thread does the work alone
        helpers.append(helper)
    drain()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
