"""Writes decisions of access control to a file, as JSON lines, on a thread of its own."""

import errno
import os
import stat
import threading
import time
from collections import deque
from typing import Final

from bowstring.engine import event_log
from bowstring.engine.security.audit_records import decision_json, dropped_json
from bowstring.engine.security.decided import Decided

QUEUE_MAX: Final = 10_000
"""Most decisions that wait to be written; more are dropped and counted."""
_AT_ONCE: Final = 500
_MODE: Final = 0o600
_STOP_TIMEOUT_S: Final = 5.0
_RETRY_S: Final = 1.0


class AuditLog:
    """The audit file.

    The file is opened again when it was moved or removed, so that it can be rotated by renaming it. Only the
    owner may read it. While it cannot be written, decisions wait; those beyond QUEUE_MAX are dropped,
    counted, and named by a line with ``dropped``.

    Attributes:
        dropped: Decisions that were not written.
        written: Decisions that were.
    """

    def __init__(self, path: str) -> None:
        """Opens the file.

        Raises:
            OSError: It cannot be opened, or is no regular file.
        """
        self.dropped = 0
        self.written = 0
        self._path = path
        self._queue: deque[tuple[float, Decided]] = deque()
        self._untold = 0  # of the dropped ones
        self._due = threading.Condition()
        self._stops = False
        self._file = _opened(path)
        self._thread = threading.Thread(target=self._run, name="bowstring-audit", daemon=True)
        self._thread.start()

    def note(self, decided: Decided, at_s: float | None = None) -> None:
        """Queues a decision. Never waits for the disk.

        Args:
            at_s: When it was made, in seconds since the epoch; None: now.
        """
        with self._due:
            if len(self._queue) >= QUEUE_MAX:
                self.dropped += 1
                self._untold += 1
                return
            self._queue.append((time.time() if at_s is None else at_s, decided))
            if len(self._queue) == 1:
                self._due.notify()

    def note_lost(self, count: int) -> None:
        """Counts decisions that were lost before they came here."""
        with self._due:
            self.dropped += count
            self._untold += count

    def stop(self) -> None:
        """Writes what waits, for at most a few seconds, and closes the file."""
        with self._due:
            self._stops = True
            self._due.notify()
        self._thread.join(_STOP_TIMEOUT_S)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        has_failed = False
        rest = b""  # of the lines of `taken` that could not all be written
        while True:
            with self._due:
                while not self._queue and not self._stops:
                    self._due.wait()
                if not rest:
                    taken = [self._queue[i] for i in range(min(_AT_ONCE, len(self._queue)))]
                    untold = self._untold
                stops = self._stops
            if not taken:
                os.close(self._file)
                return
            try:
                rest = rest or _lines(taken, untold)
                self._follow_path()
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                has_failed = False
            except OSError as error:
                if not has_failed:
                    event_log.error(
                        "the audit file cannot be written, so decisions wait, and are dropped if it lasts; "
                        "make room, or let the broker write there",
                        file=self._path,
                        detail=error.strerror or str(error),
                    )
                has_failed = True
                if stops:
                    os.close(self._file)
                    return
                time.sleep(_RETRY_S)
                continue
            with self._due:
                for _ in taken:
                    self._queue.popleft()
                self._untold -= untold
                self.written += len(taken)

    def _follow_path(self) -> None:
        if self._is_gone():
            # The old one stays until there is another: its number may soon be that of another file.
            opened = _opened(self._path)
            os.close(self._file)
            self._file = opened

    def _is_gone(self) -> bool:
        """Whether the path names another file by now."""
        try:
            there, here = os.stat(self._path), os.fstat(self._file)
        except FileNotFoundError:
            return True
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


def _opened(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags, _MODE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    os.fchmod(file, _MODE)
    return file


def _lines(taken: list[tuple[float, Decided]], untold: int) -> bytes:
    lines = [decision_json(at, decided) for at, decided in taken]
    if untold:
        lines.append(dropped_json(time.time(), untold))
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")
