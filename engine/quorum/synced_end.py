"""Keeps the synced end of the metadata log in a file of its own, `synced-end`.

A batch at the end of the log that fails its CRC looks like one that a crash has torn, also if it was synced
and the leader counts on it. This file separates the two. It has two slots, written in turn, so that a torn
write leaves the other one.
"""

import os
import struct
import threading
from binascii import crc32
from pathlib import Path
from typing import Final

from bowstring.engine.storage.checkpoints import sync_directory
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY

FILE_NAME: Final = "synced-end"
_SLOT: Final = struct.Struct(">QqI")
_BODY: Final = struct.Struct(">Qq")
_SLOT_BYTES: Final = 512  # a sector: a torn write does not reach the other slot


class SyncedEnd:
    """The offset below which the log was synced. Thread-safe.

    The event loop lowers it before it cuts the log, a thread raises it after a sync. A raise that was begun
    before a cut has no effect.

    Attributes:
        path: The file.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._lock = threading.Lock()
        self._cuts = 0
        self._number, self._offset = _load(self.path) or (0, 0)
        is_new = not self.path.exists()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_DSYNC, 0o644)
        if is_new:
            self._write(0)
            sync_directory(directory)

    @property
    def offset(self) -> int:
        """Records below were synced."""
        return self._offset

    @property
    def cuts(self) -> int:
        """Counts the cuts of the log; `raise_to` needs the count from before its sync."""
        return self._cuts

    def raise_to(self, offset: int, cuts: int) -> None:
        """Notes that the log was synced up to `offset`, unless it was cut since there were `cuts` cuts."""
        with self._lock:
            if cuts == self._cuts and offset > self._offset:
                self._write(offset)

    def cut_to(self, offset: int) -> None:
        """Prepares for a cut of the log at `offset`. Call it before the cut."""
        with self._lock:
            self._cuts += 1
            if offset < self._offset:
                self._write(offset)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)

    def _write(self, offset: int) -> None:
        self._number += 1
        body = _BODY.pack(self._number, offset)
        slot = body + crc32(body).to_bytes(4, "big")
        written = os.pwrite(self._fd, slot, _SLOT_BYTES * (self._number % 2))
        if written != len(slot):
            raise OSError(f"{self.path}: only {written} of {len(slot)} bytes were written")
        self._offset = offset


def stored_synced_end(home: Path) -> int | None:
    """Returns the offset below which the metadata log in a log directory was synced; None if it is unknown,
    as when the file is new and the log may be older.

    Raises:
        OSError: It cannot be read.
    """
    found = _load(home / METADATA_PARTITION_DIRECTORY / FILE_NAME)
    return None if found is None else found[1] or None


def _load(path: Path) -> tuple[int, int] | None:
    """Returns number and offset of the newest slot; None if there is none."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = []
    for at in (0, _SLOT_BYTES):
        slot = data[at : at + _SLOT.size]
        if len(slot) == _SLOT.size:
            number, offset, checksum = _SLOT.unpack(slot)
            if crc32(slot[: _BODY.size]) == checksum:
                found.append((number, offset))
    return max(found, default=None)
