"""A file that a process maps into its memory: its stores reach the page cache without a call.

`MappedFile` finds the stores between two moments. The process may die between any two of them, and only the
release store of a length orders them: the caller puts them in any order.
"""

import mmap
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

WORD_BYTES = 8
PAGE_BYTES = 4096
# A longer run of changed words is one copy of bytes, which counts as one store.
WORDS_APART = 8


class MappedFile:
    """The content of a mapped file as of the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = path.read_bytes() if path.exists() else b""
        self._inode: int | None = None
        self._file: FileIO | None = None
        self._map: mmap.mmap | None = None

    def gone(self) -> None:
        """The file was removed; the next one of this name is another."""
        self.content = b""
        self._close()

    def _close(self) -> None:
        if self._map is not None:
            self._map.close()
        if self._file is not None:
            self._file.close()
        self._inode = self._file = self._map = None

    def _read(self, inode: int) -> bytes:
        # It is checked before each operation, so it stays open and mapped.
        if self._file is None or self._inode != inode:
            self._close()
            self._inode, self._file = inode, FileIO(str(self.path))
        size_bytes = self._file.seek(0, 2)
        if self._map is None or len(self._map) != size_bytes:
            if self._map is not None:
                self._map.close()
                self._map = None
            if not size_bytes:
                return b""
            self._map = mmap.mmap(self._file.fileno(), size_bytes, access=mmap.ACCESS_READ)
        return self._map[:]

    def look(self, inode: int) -> tuple[int | None, list[tuple[int, bytes]]]:
        """Returns (the size if it has changed, (position, bytes) of each store since the last look).

        Args:
            inode: The simulated inode that the path has now.
        """
        now = self._read(inode)
        size_bytes = len(now)
        before, self.content = self.content, now
        if now == before:
            return None, []
        resized = None if size_bytes == len(before) else size_bytes
        before = before[:size_bytes] + bytes(size_bytes - len(before))
        return resized, list(_stores(before, now))


def _stores(before: bytes, now: bytes) -> Iterator[tuple[int, bytes]]:
    for page in range(0, len(now), PAGE_BYTES):
        if now[page : page + PAGE_BYTES] != before[page : page + PAGE_BYTES]:
            yield from _stores_in_page(before, now, page)


def _stores_in_page(before: bytes, now: bytes, page: int) -> Iterator[tuple[int, bytes]]:
    changed = [
        at
        for at in range(page, min(page + PAGE_BYTES, len(now)), WORD_BYTES)
        if now[at : at + WORD_BYTES] != before[at : at + WORD_BYTES]
    ]
    runs: list[list[int]] = []
    for at in changed:
        if runs and runs[-1][-1] + WORD_BYTES == at:
            runs[-1].append(at)
        else:
            runs.append([at])
    for run in runs:
        if len(run) > WORDS_APART:
            yield run[0], now[run[0] : run[-1] + WORD_BYTES]
        else:
            yield from ((at, now[at : at + WORD_BYTES]) for at in run)
