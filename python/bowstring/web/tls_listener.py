"""Accepts connections of TLS, with bounds for their handshakes.

Servers of asyncio and uvloop call a protocol after the handshake only: before it, nobody counts a connection,
and clients that send nothing take descriptors.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable

HANDSHAKE_S = 10.0
HANDSHAKES_MAX = 400
"""Under way at a time, half of them from one address: more end the oldest ones."""
SHUTDOWN_S = 5.0
"""How long a client may take to answer the end of TLS; then its connection is cut."""
RETRY_S = 1.0
"""How long nothing is accepted where descriptors or memory lack."""


class TlsListener:
    """Accepts the connections of a socket until it is closed.

    Args:
        listening: a listening, non-blocking socket; the caller closes it after this.
        tls: of the server.
        make_protocol: called for each connection; its protocol is connected after the handshake.
    """

    def __init__(
        self, listening: socket.socket, tls: ssl.SSLContext, make_protocol: Callable[[], asyncio.Protocol]
    ):
        self._listening, self._tls, self._make_protocol = listening, tls, make_protocol
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], str] = {}
        self._addresses: Counter[str] = Counter()
        self._retry: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Accepts no more, and ends handshakes."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listening)
        for each in self._handshakes:
            each.cancel()

    async def wait_closed(self) -> None:
        """Waits until handshakes have ended."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _listen(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Accepts one connection: where more wait, the loop calls it again."""
        try:
            connection, address = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._loop.remove_reader(self._listening)
            self._retry = self._loop.call_later(RETRY_S, self._listen)
            return
        connection.setblocking(False)
        host: str = address[0]
        self._make_room(host)
        task = self._loop.create_task(self._shake(connection))
        self._handshakes[task] = host
        self._addresses[host] += 1
        task.add_done_callback(self._forget)

    def _make_room(self, host: str) -> None:
        if self._addresses[host] >= HANDSHAKES_MAX // 2:
            oldest = next(task for task, each in self._handshakes.items() if each == host)
        elif len(self._handshakes) >= HANDSHAKES_MAX:
            oldest = next(iter(self._handshakes))
        else:
            return
        self._forget(oldest)
        oldest.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        host = self._handshakes.pop(task, None)
        if host is not None:
            self._addresses[host] -= 1
            if not self._addresses[host]:
                del self._addresses[host]

    async def _shake(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError:  # the client's: no TLS, no certificate, too slow, or gone
            return
