"""Chooses ports for nodes and claims them, so that no other process that chooses here gets the same."""

import errno
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_FIRST: Final = 10_000
_TRIES_PER_PORT: Final = 100


class ClaimedPorts:
    """Ports for nodes, claimed until `close` or the end of the process.

    A claim is an abstract Unix socket named after the port. Like a port, such a name exists once in a network
    namespace, and the kernel frees it however its process ends. A node that restarts finds its ports free.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []

    def take(self, count: int, host: str = "127.0.0.1") -> list[int]:
        """Claims free ports that outgoing connections never get.

        Args:
            count: How many.
            host: Address of this machine at which they must be free.

        Raises:
            OSError: There are too few, or this machine does not have the address.
        """
        low, high = _range()
        found: list[int] = []
        for port in random.sample(range(low, high), min(high - low, _TRIES_PER_PORT * count)):
            if len(found) == count:
                break
            if self.take_these([port], host):
                found.append(port)
        if len(found) < count:
            self.give_back(count=len(found))
            raise OSError(f"there are no {count} free ports between {low} and {high}")
        return found

    def take_these(self, ports: Sequence[int], host: str = "127.0.0.1") -> bool:
        """Claims all of these ports, or none; returns whether all were free.

        Raises:
            OSError: This machine does not have the address, or descriptors run out.
        """
        before = len(self._claims)
        try:
            if all(self._take_one(port, host) for port in ports):
                return True
        except BaseException:
            self.give_back(count=len(self._claims) - before)
            raise
        self.give_back(count=len(self._claims) - before)
        return False

    def _take_one(self, port: int, host: str) -> bool:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0bowstring-port-{port}")
            socket.create_server((host, port)).close()
        except OSError as error:
            claim.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
        self._claims.append(claim)
        return True

    def give_back(self, count: int, *, oldest: bool = False) -> None:
        """Ends the claims of the latest, or of the oldest, ports."""
        for _ in range(count):
            self._claims.pop(0 if oldest else -1).close()

    def close(self) -> None:
        """Ends all claims."""
        self.give_back(len(self._claims))

    def __len__(self) -> int:
        return len(self._claims)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _range() -> tuple[int, int]:
    """Returns the ports below those of outgoing connections, or above 20,000 if these begin early."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return (_FIRST, ephemeral) if ephemeral > 2 * _FIRST else (2 * _FIRST, 65_536)
