"""Keeps the machine's memory in use, as on a server that has been running for some time.

A virtual machine returns free memory to its host. The first use of such a page afterwards costs the guest
several times as much as the page's data, so a broker's CPU per gigabyte would depend more on the host than on
the broker. With memory full of clean cache pages, new pages come from dropped ones, on every machine and for
every broker. Also, no data of earlier measurements is left to be written: the kernel would write it on the
measured processors at any time.
"""

from __future__ import annotations

import os
from pathlib import Path

STEP_BYTES = 64 << 20
FREE_BYTES = 192 << 20  # stays free; the kernel starts to reclaim below some 80 MiB
FILE_BYTES = 1 << 40  # sparse: reading it takes memory, not disk


class WarmMemory:
    """Fills free memory with pages of a sparse file; the kernel drops them when other memory is needed.

    Args:
        path: where to put the file; it needs no room on the disk.
    """

    def __init__(self, path: Path):
        self._path = path
        self._position = 0

    def fill(self) -> None:
        """Writes dirty pages to disk, then reads until less than FREE_BYTES are free."""
        os.sync()
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, FILE_BYTES)
            buffer = bytearray(1 << 20)
            # If holes use no memory (tmpfs), free memory would never shrink.
            last = self._position + 2 * _free_bytes()
            while self._position < last and (step := min(_free_bytes() - FREE_BYTES, STEP_BYTES)) > 0:
                end = self._position + step
                while self._position < end:
                    self._position += os.preadv(file, [buffer], self._position % FILE_BYTES)
        finally:
            os.close(file)

    def give_back(self) -> None:
        """Removes the file, and with it every page it holds."""
        self._path.unlink(missing_ok=True)


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no MemFree line")
