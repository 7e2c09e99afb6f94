"""Staged tails of a log directory: batches gather in memory, so that .log files get them in large writes.

The native side is _native/disk/staged_tail.pyx; docs/internals/staged-tail.md has the whole picture. In
commit mode the write-ahead log makes the batches durable, so their chunks are plain memory. In os mode the
chunks are in a mapped file in the log directory, which survives the process: the next start appends to the
logs what they lack.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bowstring._native.disk.directory_health import DirectoryHealth, is_device_error
from bowstring._native.disk.staged_tail import abandon_tails, end_waiting, wait_for_tails, write_rested
from bowstring._native.disk.tail_pool import TailMemory, restore
from bowstring.engine import event_log

TAILS_FILE: Final = ".bowstring-tails"
POOL_BYTES: Final = 16 << 20
FROM_BYTES: Final = 1 << 20
REST_MS: Final = 100
_LOOK_EVERY_S: Final = 0.05
_RETRY_EVERY_S: Final = 0.5
_TELL_EVERY_S: Final = 10.0


class StagedTails:
    """The two pools of one log directory, and the threads that write out the tails of partitions at rest.

    Args:
        path: The log directory, which is locked.
        health: Its health. A tail that its device refuses takes the directory out of service.

    Attributes, all for `open`:
        pool_bytes: Of each pool.
        from_bytes: Of a .log: a smaller one has no staged tail.
        rest_ms: A partition without appends for this long is at rest.
        in_background: Whether threads write out the tails of partitions at rest; simulations do it
            themselves.
    """

    def __init__(self, path: Path, health: DirectoryHealth) -> None:
        self._path = path
        self._file = path / TAILS_FILE
        self._health = health
        self.pool_bytes = POOL_BYTES
        self.from_bytes = FROM_BYTES
        self.rest_ms = REST_MS
        self.in_background = True
        self._pools: list[TailMemory] = []
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        """Appends to the logs what a killed broker left staged, then has them stage their tails.

        Call it before any log is opened.

        Raises:
            OSError: A log cannot take what it lacks. Nothing is lost: the next start tries again.
        """
        restored = restore(self._file, self._path)
        if restored:
            event_log.info(
                "appended to the logs what a killed broker had staged",
                directory=str(self._path),
                tails=restored,
            )
        mapped = self._map()
        plain = TailMemory(self.pool_bytes, from_bytes=self.from_bytes, rest_ms=self.rest_ms)
        self._health.stage_tails(mapped, plain)
        self._pools = [pool for pool in (mapped, plain) if pool is not None]
        for pool in self._pools if self.in_background else ():
            thread = threading.Thread(
                target=self._write_rested, args=(pool,), name="staged tails", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def _map(self) -> TailMemory | None:
        try:
            return TailMemory(self.pool_bytes, self._file, from_bytes=self.from_bytes, rest_ms=self.rest_ms)
        except OSError as error:
            event_log.warning(
                "the file for staged tails cannot be made, so in os mode each batch is written to its log at "
                "once, which costs more processor time; make room in the directory, or let the broker read "
                "the boot_id, then restart it",
                file=str(self._file),
                error=str(error),
            )
            self._remove()
            return None

    def taken_bytes(self) -> Iterator[tuple[str, int]]:
        """Returns, for each mode ("os", "commit"), how much of its pool staged tails use."""
        for pool in self._pools:
            yield "commit" if pool.path is None else "os", pool.taken_bytes

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the threads. When all bytes are in the logs, the directory has only Kafka's files."""
        self._end_threads()
        failed = 0
        for pool in self._pools:
            pool.close()
            failed += write_rested(pool, 0)[0]
        if self._pools and not failed and not any(pool.taken_bytes for pool in self._pools):
            self._remove()
        self._pools.clear()

    def _end_threads(self) -> None:
        for pool in self._pools:
            end_waiting(pool)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def rest(self) -> None:
        """Writes out all tails, as when every partition is at rest; for simulations."""
        for pool in self._pools:
            write_rested(pool, 0)

    def abandon(self) -> None:
        """Forgets staged bytes, as a killed process does; for simulations. No log may be used later."""
        self._end_threads()
        for pool in self._pools:
            abandon_tails(pool)
        self._pools.clear()

    def _write_rested(self, pool: TailMemory) -> None:
        tell_at = 0.0
        failed = 0
        while wait_for_tails(pool):
            time.sleep(_RETRY_EVERY_S if failed else _LOOK_EVERY_S)
            failed, error = write_rested(pool, self.rest_ms)
            if failed and is_device_error(error):
                self._health.fail(error, "writing a staged tail", str(self._path))
            if failed and time.monotonic() >= tell_at:
                tell_at = time.monotonic() + _TELL_EVERY_S
                event_log.error(
                    "the last batches of some logs cannot be written to their files. They stay in memory, and"
                    " the broker tries again: make room on the disk, or check it",
                    directory=str(self._path),
                    logs=failed,
                    error=os.strerror(error),
                )
