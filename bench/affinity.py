"""Gives broker and clients processors of their own for a measurement."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def can_be_apart() -> bool:
    """Whether there are two processors."""
    return len(os.sched_getaffinity(0)) > 1


@contextmanager
def apart(broker: int, clients: Iterable[int]) -> Iterator[None]:
    """Keeps a broker on the last processor and its clients on the others until the block ends.

    So they never wait for each other's turns. Processors of threads that are started meanwhile are those of
    the threads that start them.

    Args:
        broker: Its process id.
        clients: Those of the clients. There must be two processors.
    """
    before = os.sched_getaffinity(0)
    *others, last = sorted(before)
    places = {broker: {last}} | {client: set(others) for client in clients}
    try:
        for process, processors in places.items():
            _move(process, processors)
        yield
    finally:
        for process in places:
            _move(process, before)


def _move(process: int, processors: set[int]) -> None:
    """Moves all threads, also those that others start meanwhile. A process or thread that has ended is passed
    over.
    """
    while any([_move_thread(thread, processors) for thread in _threads(process)]):
        pass


def _threads(process: int) -> list[int]:
    try:
        return [int(path.name) for path in Path(f"/proc/{process}/task").iterdir()]
    except FileNotFoundError:
        return []


def _move_thread(thread: int, processors: set[int]) -> bool:
    """Returns whether the thread was elsewhere."""
    try:
        if os.sched_getaffinity(thread) == processors:
            return False
        os.sched_setaffinity(thread, processors)
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno != errno.EINVAL:  # else a worker of io_uring, which only the kernel moves
            raise
        return False
    return True
