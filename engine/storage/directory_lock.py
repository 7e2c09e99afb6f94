"""Locks a data directory for one writer."""

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
    """Locks a directory. Closing the returned descriptor releases the lock.

    Args:
        path: The directory.
        cure: Advice for the error message if a broker holds the lock.
        make: Creates the lock file if it does not exist.

    Raises:
        DataDirectoryError: A broker uses the directory.
        OSError: The lock file cannot be opened.
    """
    fd = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
    try:
        # Takes both kinds of lock: flock() excludes a second broker in the same process, and the POSIX lock
        # is the one that Apache Kafka takes.
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
    """Holds a directory's lock inside the ``with`` block. Without `make`, a directory without a lock file is
    not locked.

    Raises:
        DataDirectoryError: A broker uses the directory.
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
