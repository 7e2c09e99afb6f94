"""Decides how long the names of the bootstrap servers may stay unresolved (KIP-909)."""

from __future__ import annotations

import socket
from collections.abc import Callable

from bowstring.clients.errors import (
    BootstrapResolutionError,
    ClientError,
    ConfigError,
    UnresolvedNameError,
)
from bowstring.clients.records import Node


def require_resolvable(servers: list[Node]) -> None:
    """Looks the names up until one of them resolves.

    Raises:
        ConfigError: none of them does.
    """
    reasons = []
    for server in servers:
        try:
            socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
        except OSError as error:
            reasons.append(f"{server.host}: {error.strerror}")
        else:
            return
    raise ConfigError(
        f"no name of bootstrap_servers resolves ({'; '.join(reasons)}): check the names and DNS, or give "
        "bootstrap_resolve_timeout_ms the time to wait for them"
    )


class Resolution:
    """Gives up a client whose bootstrap servers have not resolved in time.

    Args:
        servers: the bootstrap servers.
        timeout_ms: how long they may stay unresolved once the client is used; None for ever, and 0 to look
            them up at once.
        last_failure: returns why the last connection to a node failed.

    Raises:
        ConfigError: with timeout_ms=0, no name resolves.

    Attributes:
        error: set for good once time is over.
    """

    def __init__(
        self, servers: list[Node], timeout_ms: int | None, last_failure: Callable[[Node], ClientError | None]
    ):
        if timeout_ms == 0:
            require_resolvable(servers)
        self.error: BootstrapResolutionError | None = None
        self._servers = servers
        self._last_failure = last_failure
        self._timeout_s = timeout_ms / 1000 if timeout_ms else None
        self._began: float | None = None

    def look(self, now: float) -> float:
        """Sets `error` when time is over; returns seconds until then.

        Args:
            now: CLOCK_MONOTONIC in seconds; time begins with the first call.
        """
        if self._timeout_s is None or self.error is not None:
            return float("inf")
        if self._began is None:
            self._began = now
        left = self._began + self._timeout_s - now
        failures = [self._last_failure(server) for server in self._servers]
        if any(each is not None and not isinstance(each, UnresolvedNameError) for each in failures):
            self._timeout_s = None  # a name has resolved, but no broker answers there
            return float("inf")
        if left <= 0 and all(failures):
            self.error = BootstrapResolutionError([server.host for server in self._servers], self._timeout_s)
        return max(left, 0.05)

    def done(self) -> None:
        """A broker has answered."""
        self._timeout_s = None

    def check(self) -> None:
        """Raises BootstrapResolutionError once time is over."""
        if self.error is not None:
            raise self.error
