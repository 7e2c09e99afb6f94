"""Looks for a newer schema from time to time, while the one that is known stays in use."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

RETRY_S = 5.0
"""After a newest schema that could not be used; twice as long after each further one."""
RETRY_MAX_S = 60.0
WAIT_S = 1.0
"""How long a caller waits for the answer of a registry. After one that was later, callers do not wait."""
_log = logging.getLogger(__name__)


class Renewal:
    """One look at a time, in a thread of its own: a registry that hangs holds no caller. Any thread may call.

    Args:
        renew: takes a newer schema if there is one. If it raises, that is logged.
        ttl_s: seconds from one look to the next.

    Attributes:
        due_at: when the next look is due, on the monotonic clock; infinite before `begin`.
    """

    def __init__(self, renew: Callable[[], None], ttl_s: float):
        self._renew, self._ttl_s = renew, ttl_s
        self.due_at = math.inf
        self._lock = threading.Lock()
        self._running = False
        self._was_late = False
        self._failures = 0

    def begin(self) -> None:
        """Notes that the newest schema is known now."""
        self.due_at = time.monotonic() + self._ttl_s

    @property
    def is_due(self) -> bool:
        """Whether `look` asks the registry, and may wait for it."""
        return not self._running and time.monotonic() >= self.due_at

    def look(self) -> None:
        """Looks for a newer schema if that is due; returns after WAIT_S at the latest, and goes on then."""
        if not self.is_due:
            return
        with self._lock:
            if not self.is_due:
                return
            self._running = True
        done = threading.Event()
        try:
            threading.Thread(target=self._run, args=(done,), name="bowstring-newest", daemon=True).start()
        except RuntimeError as error:  # there are too many threads
            self._failed(error)
            self._running = False
            return
        if not self._was_late:
            done.wait(WAIT_S)

    def _run(self, done: threading.Event) -> None:
        began = time.monotonic()
        try:
            self._renew()
        except Exception as error:
            self._failed(error)
        else:
            self._failures = 0
            self.due_at = time.monotonic() + self._ttl_s
        finally:
            self._was_late = time.monotonic() - began > WAIT_S
            self._running = False
            done.set()

    def _failed(self, error: Exception) -> None:
        pause_s = min(RETRY_S * 2 ** min(self._failures, 10), RETRY_MAX_S)
        self._failures += 1
        self.due_at = time.monotonic() + pause_s
        _log.warning("the newest schema cannot be used, the one before stays: %s", error)
