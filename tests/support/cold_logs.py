"""Helpers for logs whose files are not in memory, and for damaging them."""

import os
import struct
from pathlib import Path

from tests.support.served_plane import TOPIC, Served

VALUE = b"x" * 900


def evict(directory) -> None:
    for path in directory.iterdir():
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def reopened(tmp_path, reactors: int = 1) -> Served:
    served = Served(tmp_path, reactors=reactors)
    log = served.logs[TOPIC, 0]
    log.advance_high_watermark(log.log_end_offset)
    return served


def layout(directory: Path) -> list[tuple[Path, int, int, int]]:
    """Returns (file, position, size, base offset) of every batch, from the headers only."""
    found = []
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            base_offset, length = struct.unpack_from(">qi", data, position)
            found.append((path, position, length + 12, base_offset))
            position += length + 12
    return found


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Overwrites bytes without the broker's knowledge, so that they must be read from the disk."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def flip(path: Path, position: int, mask: int = 0x10) -> None:
    with path.open("rb") as file:
        file.seek(position)
        byte = file.read(1)[0]
    overwrite(path, position, bytes([byte ^ mask]))
