"""Opens files with the descriptors that are kept for them when no other is left."""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bowstring._native.disk.descriptors import lend, this_thread_takes_last

T = TypeVar("T")


def open_file(path: str | os.PathLike[str], flags: int, mode: int = 0o644) -> int:
    """Opens a file as os.open does; the descriptor is not inherited by other programs.

    Raises:
        OSError: Also when the reserve is used up.
    """
    return with_reserve(lambda: os.open(path, flags | os.O_CLOEXEC, mode))


def take_last_descriptors() -> None:
    """Lets native code of the calling thread have the last of the reserve: the node cannot go on without what
    the thread opens.
    """
    this_thread_takes_last()


def with_reserve(work: Callable[[], T]) -> T:
    """Runs work that opens something; runs it again for each descriptor that the reserve lends.

    Args:
        work: Has no effect if it fails for want of a descriptor.
    """
    while True:
        try:
            return work()
        except OSError as error:
            if not lend(error.errno or 0):
                raise


async def with_reserve_async(work: Callable[[], Awaitable[T]]) -> T:
    """Does the same with work that waits, such as connecting to another node."""
    while True:
        try:
            return await work()
        except OSError as error:
            if not lend(error.errno or 0):
                raise
