"""The same work on many things, spread over threads."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

_LOGS_PER_THREAD: Final = 64

T = TypeVar("T")


def threads_for(logs: int, most: int) -> int:
    """How many threads are worth their while for so many logs."""
    return max(1, min(most, logs // _LOGS_PER_THREAD))


def run_on_threads(work: Callable[[T], object], items: Sequence[T], threads: int) -> None:
    """Does `work` for each item on several threads, this one among them; raises the first error."""
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
            break  # the interpreter is ending: this thread does it alone
        helpers.append(helper)
    drain()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
