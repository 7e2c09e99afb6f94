"""Maps segment files: complete record batches as memory that lives as long as anything points into it."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

from bowstring._native.client import mapped_pages
from bowstring.clients.errors import CorruptBatchError
from bowstring.protocol.local_reads import Segment

# Smaller segments are copied, because a mapping costs more.
MAPPED_BYTES_MIN = 1 << 16
WINDOW_BYTES = 8 << 20


class MappedSegment:
    """The readable part of one segment.

    The descriptor is closed after mapping; the mapping is removed when nothing refers to it.

    Args:
        segment: from the broker, with a descriptor, which is always closed.
        name: of the partition, for errors.
        copied: reads with read(2) instead of mapping.

    Raises:
        CorruptBatchError: the file is shorter than the part that the broker calls readable.
    """

    def __init__(self, segment: Segment, name: str, *, copied: bool = False):
        self.start = segment.start_position
        self.end = segment.end_position
        self.name = name
        self._fd = segment.fd
        self._memory: memoryview | None = None
        self._map: mmap.mmap | None = None
        self._origin = 0
        try:
            if os.fstat(self._fd).st_size < self.end:
                raise self._short()
            _tell_that_it_is_read(self._fd)
            if not copied and self.end - self.start >= MAPPED_BYTES_MIN:
                self._make_map()
        except BaseException:
            self.close()
            raise

    def _make_map(self) -> None:
        self._origin = self.start & -mmap.ALLOCATIONGRANULARITY
        self._map = mmap.mmap(
            self._fd, self.end - self._origin, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=self._origin
        )
        mapped_pages.expect_sequential(self._map)
        self._memory = memoryview(self._map)

    def window(self, start: int, size: int) -> memoryview:
        """Returns at most `size` bytes from position `start` on; their pages are in memory and readable.

        Raises:
            CorruptBatchError: the file has become shorter, or cannot be read.
        """
        stop = min(start + size, self.end)
        if self._memory is None:
            return self._copied(start, stop)
        found = self._memory[start - self._origin : stop - self._origin]
        if mapped_pages.populate(found) != 0:
            raise self._short()
        return found

    def _copied(self, start: int, stop: int) -> memoryview:
        into = memoryview(bytearray(stop - start))
        done = 0
        while done < len(into):
            got = os.preadv(self._fd, [into[done:]], start + done)
            if got == 0:
                raise self._short()
            done += got
        return into

    def _short(self) -> CorruptBatchError:
        return CorruptBatchError(
            f"{self.name}: a segment file ends before byte {self.end} or cannot be read, but the broker "
            "reported it as readable: it was truncated meanwhile, or its disk fails; read again, or seek() "
            "past it"
        )

    def close(self) -> None:
        """Closes the file; returned memory stays valid."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._memory = self._map = None


def _tell_that_it_is_read(fd: int) -> None:
    """Takes a shared lock that lasts as long as the descriptor or mapping. A broker that must truncate the
    file after a crash then leaves it alone and makes a shorter copy instead.
    """
    with contextlib.suppress(OSError):  # without locks only this protection is missing
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
