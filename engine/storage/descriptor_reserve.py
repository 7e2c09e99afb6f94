"""Keeps file descriptors for files: raises the limit, holds a reserve, and says when descriptors run out.

Connections are refused while the reserve is not half full (_native/disk/descriptors.pxd), so a crowd of
clients does not keep the broker from opening its logs.
"""

import asyncio
import fcntl
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from bowstring._native.disk import descriptors
from bowstring.engine import event_log

_SMALL: Final = 4096
"""A limit below this is too small for most brokers: each partition and each connection takes a descriptor."""
_LOOK_S: Final = 0.25
_QUIET_LOOKS: Final = 4
"""After this many checks in a row that find enough in the reserve, logs that wait are tried again."""
_OVER_LOOKS: Final = 20
"""After this many, the shortage is over: a recurring one is logged once."""
_HIGHEST: Final = 4096 + 1024 - 1
"""The reserve ends here: HIGH and RESERVE_MAX of _native/disk/descriptors.pyx."""
_OF_AN_IMPORT: Final = 3
"""A folder, a file and a library that it needs, for a moment."""
_CURE: Final = (
    "raise the limit (ulimit -n, LimitNOFILE of systemd), or lower the number of partitions and connections"
)


def raise_file_limit() -> None:
    """Raises the soft limit on open files to the hard limit; warns if that is small. Call before the first
    thread starts: see `make_room`.
    """
    make_room()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < _SMALL:
        event_log.warning(
            "the limit on open files is small; each partition and each connection takes one",
            limit=hard,
            cure=f"raise it to {_SMALL} at least (ulimit -n, LimitNOFILE of systemd)",
        )


def make_room() -> None:
    """Raises the soft limit on open files, and has the kernel make room for the reserve in the table of open
    files. That takes no time while the process has one thread; with more, the kernel waits at each growth
    until all processors have switched tasks (10 to 20 ms).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    any_fd = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        os.close(fcntl.fcntl(any_fd, fcntl.F_DUPFD_CLOEXEC, min(_HIGHEST, hard - 1)))
    except OSError:
        pass  # the last ones are in use
    finally:
        os.close(any_fd)


def descriptor_counters() -> tuple[int, int, int]:
    """Returns how many descriptors the reserve holds, how many shortages there were, and how many connections
    were refused meanwhile.
    """
    stats = descriptors.stats()
    return stats["held"], stats["shortages"], stats["refused_connections"]


class _RoomForImports:
    """Finds no module, but makes room for the next finders, which open files: handlers of requests and other
    code, also Python's, are imported on first use, and a request must not fail because that comes in a
    shortage.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> Any:
        """Returns None."""
        descriptors.make_room(_OF_AN_IMPORT)


class DescriptorReserve:
    """The reserve of a node, and its reports. Used on the control loop.

    Attributes:
        when_over: Called when there were enough descriptors for a second.
    """

    def __init__(self) -> None:
        self.when_over: Callable[[], None] = lambda: None
        self._fd = -1
        self._began_s = 0.0
        self._quiet = 0
        self._timer: asyncio.TimerHandle | None = None
        self._imports = _RoomForImports()

    def keep(self) -> None:
        """Takes the reserve."""
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        descriptors.reserve(self._fd)
        sys.meta_path.insert(0, self._imports)

    def start(self) -> None:
        """Begins to report. Call on the control loop, whose thread has the last descriptors, too: it keeps
        none open for partitions, but imports code and writes the metadata log.
        """
        descriptors.this_thread_takes_last()
        asyncio.get_running_loop().add_reader(self._fd, self._begin)

    def stop(self) -> None:
        """Stops reporting. Call on the control loop."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_back(self) -> None:
        """Closes the reserve unless another node of this process uses it."""
        if self._fd >= 0:
            sys.meta_path.remove(self._imports)
            descriptors.release(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _begin(self) -> None:
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return
        self._quiet = 0
        if self._timer is None:
            self._began_s = time.monotonic()
            event_log.error(
                "no file descriptor is left; connections are refused until there are enough for files again",
                limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                cure=_CURE,
            )
            self._look_later()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._quiet = self._quiet + 1 if descriptors.refill() else 0
        if self._quiet < _OVER_LOOKS:
            self._look_later()
        else:
            self._timer = None
            lasted_s = time.monotonic() - self._began_s - _OVER_LOOKS * _LOOK_S
            event_log.info("file descriptors are available again", after_s=round(lasted_s, 1))
        if self._quiet == _QUIET_LOOKS:
            self.when_over()
