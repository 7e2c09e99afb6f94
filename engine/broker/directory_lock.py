"""The lock of a data directory: who holds it may write there."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK_FILE: Final = ".lock"


class DataDirectoryError(Exception):
    """A data directory that cannot be used; the message names the file and says what to do."""


def take_lock(path: Path, cure: str, *, make: bool = True) -> int:
    """Locks a directory until the descriptor that is returned is closed.

    Args:
        path: The directory.
        cure: What to do when a broker holds the lock, for the message.
        make: Makes the lock file where there is none.

    Raises:
        DataDirectoryError: A broker runs on it.
        OSError: The lock file cannot be opened.
    """
    fd = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
    try:
        # Both kinds: flock is what says no to a second broker in this very process, and the POSIX
        # lock is the one that Apache Kafka takes.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise DataDirectoryError(
            f"the data directory {path} is in use by another broker ({LOCK_FILE} is locked); {cure}"
        ) from None
    return fd


@contextmanager
def locked(path: Path, cure: str, *, make: bool = True) -> Iterator[None]:
    """Holds a directory's lock meanwhile; without `make`, one that has no lock file is held by nobody.

    Raises:
        DataDirectoryError: A broker runs on it.
    """
    try:
        fd = take_lock(path, cure, make=make)
    except FileNotFoundError:
        if make:
            raise
        yield
        return
    try:
        yield
    finally:
        os.close(fd)
