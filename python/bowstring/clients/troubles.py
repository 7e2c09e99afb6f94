"""Reports problems that a client retries: once at first, then at growing intervals, and their end.

Like Kafka's clients, these continue while a broker is down or a topic does not exist yet. So that users can
see why no records arrive, the cause is logged and passed to `on_error`.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from bowstring.clients.errors import ClientError, ConfigError

OnError = Callable[[ClientError], object]

PAUSE_S = 10.0
PAUSE_MAX_S = 600.0
# Some problems solve themselves in a moment: elections, topics being created, coordinators that load.
GRACE_S = 1.0


@dataclass(slots=True)
class _Trouble:
    since: float
    tell_at: float
    pause_s: float = PAUSE_S
    told: bool = False
    over_at: float | None = None


class Listener:
    """A listener of problems."""

    __slots__ = ("__weakref__", "on_error")

    def __init__(self, on_error: OnError):
        self.on_error = on_error


class Troubles:
    """Problems of one client. Used by the thread that owns its connections, except `forget`.

    Args:
        log: logger for reports; None for no reports.
    """

    def __init__(self, log: logging.Logger | None = None):
        self._listener: weakref.ref[Listener] | None = None
        self._log = log
        self._known: dict[str, _Trouble] = {}
        self._due: list[ClientError] = []
        self.active: set[str] = set()
        """Present problems."""

    def listen(self, on_error: OnError | None) -> Listener | None:
        """Registers `on_error` for `deliver`, as long as the returned object exists.

        The client keeps that object. Threads and finalizers refer to the client's connections, so a function
        that refers to the client would keep it alive forever.

        Raises:
            ConfigError: it is not a function.
        """
        if on_error is None:
            return None
        if not callable(on_error):
            raise ConfigError(f"on_error is a {type(on_error).__name__}; give a function of the error")
        listener = Listener(on_error)
        self._listener = weakref.ref(listener)
        return listener

    def note(self, what: str, error: ClientError, *, grace_s: float = 0.0) -> None:
        """Records a problem, new or repeated; reports it when due.

        Args:
            what: the affected part, in words, e.g. "broker localhost:9092".
            grace_s: reported only after it has lasted this long.
        """
        if self._log is None:
            return
        now = time.monotonic()
        trouble = self._known.get(what)
        if trouble is None or (trouble.over_at is not None and now - trouble.over_at > trouble.pause_s):
            trouble = self._known[what] = _Trouble(now, now + grace_s)
        elif trouble.over_at is not None:  # it returned so soon that it is not reported as new
            trouble.since, trouble.over_at = now, None
            trouble.tell_at = max(trouble.tell_at, now + grace_s)
        self.active.add(what)
        if now < trouble.tell_at:
            return
        text = str(error).rstrip(". ")
        if trouble.told:
            self._log.warning("%s. The problem has lasted %.0f s; retrying", text, now - trouble.since)
        else:
            self._log.warning("%s. Retrying", text)
        trouble.told = True
        trouble.tell_at = now + trouble.pause_s
        trouble.pause_s = min(PAUSE_MAX_S, 2 * trouble.pause_s)
        if self._listener is not None:
            self._due.append(error)

    def over(self, what: str) -> None:
        """Ends a problem; reports the end if the problem was reported."""
        trouble = self._known.get(what) if what in self.active else None
        if trouble is None:
            return
        self.active.discard(what)
        trouble.over_at = now = time.monotonic()
        if trouble.told and self._log is not None:
            trouble.told = False
            self._log.warning("%s: recovered after %.1f s", what, now - trouble.since)

    def forget(self, what: str) -> None:
        """Drops a problem that no longer affects the client."""
        self._known.pop(what, None)
        self.active.discard(what)

    def deliver(self) -> None:
        """Calls `on_error` with the reports since the last call. Raises what `on_error` raises."""
        while self._due:
            error = self._due.pop(0)
            listener = self._listener() if self._listener is not None else None
            if listener is not None:
                listener.on_error(error)


def broker_name(host: str, port: int) -> str:
    """Returns the key for problems with a broker."""
    return f"broker {host}:{port}"


def topic_name(topic: str) -> str:
    """Returns the key for problems with a topic."""
    return f"topic {topic!r}"
