"""Measures a loop that only appends to a file, as the machine's own limit to compare the headline with.

Most of a broker's cost for a record is the kernel's work for new pages of the page cache. Its cost varies
several times between machines, and is high in a virtual machine whose host has not provided the memory yet.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

# Size of a batch of the headline's producers.
PIECE_BYTES = 8_196
SIZE_BYTES = 64 << 20
SECONDS_MAX = 0.3
PIECES_BETWEEN_LOOKS = 64


class BareAppend:
    """Appends to a file of its own in `folder`, which is deleted at the end of the block.

    Attributes:
        size_bytes: appended so far.
        seconds: elapsed time for that.
        cpu_s: CPU time for that.
    """

    def __init__(self, folder: Path) -> None:
        self.size_bytes = 0
        self.seconds = 0.0
        self.cpu_s = 0.0
        self._path = folder / "bare-append"
        self._file = -1

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._file)
        self._path.unlink(missing_ok=True)

    def run(self) -> None:
        """Appends another SIZE_BYTES, or less if that takes longer than SECONDS_MAX or the disk is small."""
        size = min(SIZE_BYTES, shutil.disk_usage(self._path.parent).free // 16)
        piece, write, file = b"x" * PIECE_BYTES, os.pwrite, self._file
        began, cpu = time.perf_counter(), time.thread_time()
        position, end = self.size_bytes, self.size_bytes + size
        while position < end and time.perf_counter() < began + SECONDS_MAX:
            for _ in range(PIECES_BETWEEN_LOOKS):
                write(file, piece, position)
                position += PIECE_BYTES
        self.cpu_s += time.thread_time() - cpu
        self.seconds += time.perf_counter() - began
        self.size_bytes = position

    @property
    def bytes_per_s(self) -> float:
        """Throughput of the loop."""
        return self.size_bytes / self.seconds if self.seconds else 0.0

    @property
    def cpu_s_per_gb(self) -> float:
        """CPU-seconds for 10⁹ bytes."""
        return self.cpu_s / self.size_bytes * 1e9 if self.size_bytes else 0.0

    def as_json(self) -> dict[str, Any]:
        """Returns the figures for JSON output."""
        return {"bytes_per_s": self.bytes_per_s, "cpu_s_per_gb": self.cpu_s_per_gb}
