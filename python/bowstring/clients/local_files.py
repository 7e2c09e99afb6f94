"""Segment files mapped: whole record batches as memory that lives as long as anything points into it."""

from __future__ import annotations

import errno
import mmap
import os

from bowstring.clients.errors import CorruptBatchError
from bowstring.engine.protocol.local_reads import Segment

# What is smaller is copied: a mapping costs more than that.
MAPPED_BYTES_MIN = 1 << 16
WINDOW_BYTES = 8 << 20

# Linux 5.14: brings pages in and says so where they cannot be had, instead of a SIGBUS at the first look.
MADV_POPULATE_READ = 22


class MappedSegment:
    """The readable part of one segment.

    The descriptor is closed when the mapping is made; the mapping goes when nothing points into it any more.

    Args:
        segment: as the broker gave it, with a descriptor, which is closed in any case.
        name: of the partition, for errors.
        mapped: False copies instead, through read(2).

    Raises:
        CorruptBatchError: the file is shorter than what the broker calls readable.
    """

    def __init__(self, segment: Segment, name: str, *, mapped: bool = True):
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
            if mapped and self.end - self.start >= MAPPED_BYTES_MIN:
                self._make_map()
        except BaseException:
            self.close()
            raise

    def _make_map(self) -> None:
        self._origin = self.start & -mmap.ALLOCATIONGRANULARITY
        self._map = mmap.mmap(
            self._fd, self.end - self._origin, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=self._origin
        )
        self._memory = memoryview(self._map)

    def window(self, start: int, size: int) -> memoryview:
        """At most `size` bytes from position `start` on, in memory as of now.

        Raises:
            CorruptBatchError: the file has become shorter, or cannot be read.
        """
        stop = min(start + size, self.end)
        if self._memory is None:
            return self._copied(start, stop)
        assert self._map is not None
        first = (start - self._origin) & -mmap.PAGESIZE
        try:
            self._map.madvise(MADV_POPULATE_READ, first, stop - self._origin - first)
        except OSError as error:
            if error.errno in (errno.EFAULT, errno.EIO, errno.ENXIO):
                raise self._short() from error
            if error.errno != errno.EINVAL:  # which is a kernel that does not know it
                raise
        return self._memory[start - self._origin : stop - self._origin]

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
            f"{self.name}: a segment file ends before byte {self.end} or cannot be read, though the broker "
            "calls it readable: it was cut off meanwhile, or its disk fails; read again, or seek() past it"
        )

    def malformed(self, position: int) -> CorruptBatchError:
        """The error for what is no batch at `position` of the file."""
        return CorruptBatchError(
            f"{self.name}: no record batch at byte {position} of its segment; seek() past it to go on"
        )

    def close(self) -> None:
        """Lets go of the file; memory that was handed out stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._memory = self._map = None
