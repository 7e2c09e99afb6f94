"""Notes whether the cluster answers, so that pages need not wait for it each time."""

from __future__ import annotations

import asyncio
import contextlib
import time

from bowstring.clients.errors import (
    BootstrapResolutionError,
    BrokerUnreachableError,
    ClientTimeoutError,
    ConnectionLostError,
    NoBrokerError,
    RequestTimedOutError,
)
from bowstring.protocol.whole_numbers import whole_number

PROBE_S = 1.0
"""How long a broker may take to accept a connection."""
OLD_S = 3.0
"""How long after an old answer pages say so."""
_AWAY = (
    BootstrapResolutionError,
    BrokerUnreachableError,
    ClientTimeoutError,
    ConnectionLostError,
    NoBrokerError,
    RequestTimedOutError,
)
_NOT_YET = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_LEADER_OR_FOLLOWER",
    }
)


def is_away(error: BaseException) -> bool:
    """Whether an error means that no broker answered, or only one that cannot serve yet."""
    return isinstance(error, _AWAY) or getattr(error, "name", "") in _NOT_YET


class ClusterHealth:
    """What the calls of one access have shown. Belongs to the event loop.

    Args:
        bootstrap_servers: brokers to contact first, as `host:port,…`.

    Attributes:
        away: why the cluster does not answer, in a sentence; empty if it did at last.
    """

    def __init__(self, bootstrap_servers: str):
        self._servers = [each.strip() for each in bootstrap_servers.split(",") if each.strip()]
        self.away = ""
        self._old, self._old_at = "", -OLD_S

    @property
    def trouble(self) -> str:
        """Why pages show old answers, in a sentence; empty if they do not."""
        if not self.away and time.monotonic() - self._old_at >= OLD_S:
            return ""
        return f"{self.away or self._old} The page shows what was known before, and goes on by itself."

    def note_answer(self) -> None:
        """Takes that a call was answered."""
        self.away, self._old_at = "", -OLD_S

    def note_error(self, error: Exception) -> None:
        """Takes what a call raised."""
        if isinstance(error, _AWAY):
            self.away = f"The cluster does not answer: {error}."
        elif not is_away(error):
            self.note_answer()

    def note_old(self, error: BaseException | None) -> None:
        """Takes that a page gets an old answer. `error`: of the new one; None while that is on its way."""
        reason = f": {error}" if error is not None else " yet"
        self._old, self._old_at = f"The cluster does not answer{reason}.", time.monotonic()

    async def probe(self) -> None:
        """Finds out whether a broker accepts connections, for calls that take long."""
        found = await asyncio.gather(*map(_accepts, self._servers[:8]))
        if not any(found):
            self.away = f"The cluster does not answer: no broker listens at {', '.join(self._servers)}."


async def _accepts(server: str) -> bool:
    host, _, port = server.rpartition(":")
    number = whole_number(port)
    if number is None:
        return True  # the clients know what to make of it
    with contextlib.suppress(OSError, TimeoutError):
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), number), PROBE_S)
        writer.close()
        return True
    return False
