"""Helpers for logs whose files are not in memory, and for damaging them."""

import ctypes
import mmap
import os
import struct
from functools import partial
from pathlib import Path

from tests.support.served_plane import TOPIC, Served
from tests.support.waiting import wait_until

VALUE = b"x" * 900
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value


def evict(directory) -> None:
    """Takes the records of a log directory out of the page cache."""
    for path in directory.iterdir():
        wait_until(partial(_evicted, path), f"{path} stays in the page cache")


def _evicted(path: Path) -> bool:
    """Whether no page is left: pages that a socket still sends stay at first."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(fd).st_size
        if size == 0 or path.suffix != ".log":  # brokers map the others
            return True
        address = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        assert address != _MAP_FAILED, os.strerror(ctypes.get_errno())
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        assert _LIBC.mincore(address, size, pages) == 0, os.strerror(ctypes.get_errno())
        _LIBC.munmap(address, size)
        return not any(each & 1 for each in pages)
    finally:
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
