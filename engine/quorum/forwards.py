"""Shares a few connections to the active controller among the clients whose requests this node sends on.

One request of each client is on its way at a time, so that its requests keep their order; clients take turns.
What waits is bounded for each client and in all. The broker's own requests, as heartbeats, do not come here.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.quorum.network import Peers

CONNECTIONS: Final = 4
"""Requests that are on their way at once."""
WAITING_MAX: Final = 1024
WAITING_OF_CLIENT_MAX: Final = 128
WAITING_BYTES_MAX: Final = 64 << 20


class Forwards:
    """The requests of clients to the active controller."""

    def __init__(self, client_id: str) -> None:
        self._free = [Peers(client_id) for _ in range(CONNECTIONS)]
        self._all = tuple(self._free)
        self._on_their_way: set[str] = set()
        # In the order of the clients' next turns.
        self._waiting: dict[str, deque[asyncio.Future[Peers]]] = {}
        self._count = 0
        self._bytes = 0

    @asynccontextmanager
    async def turn(self, client: str, size_bytes: int, timeout_s: float) -> AsyncIterator[Peers]:
        """Waits for the client's turn; yields the connections to use in it.

        Args:
            client: What distinguishes clients.
            size_bytes: Of the request, about.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED: too much waits already. REQUEST_TIMED_OUT: the turn did not
                come in time. The request has no effect then.
        """
        peers = await self._wait(client, size_bytes, timeout_s)
        try:
            yield peers
        finally:
            self._give_back(client, peers)

    async def _wait(self, client: str, size_bytes: int, timeout_s: float) -> Peers:
        queue = self._waiting.setdefault(client, deque())
        self._check(client, queue, size_bytes)
        turn: asyncio.Future[Peers] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._count += 1
        self._bytes += size_bytes
        self._next()
        try:
            async with asyncio.timeout(timeout_s):
                return await turn
        except BaseException as error:
            if turn in queue:
                queue.remove(turn)
                if not queue and self._waiting.get(client) is queue:
                    del self._waiting[client]
            elif turn.done() and not turn.cancelled():  # the turn came just now
                self._give_back(client, turn.result())
            if isinstance(error, TimeoutError):
                raise KafkaError(
                    Errors.REQUEST_TIMED_OUT, "The request waited for the active controller behind others."
                ) from error
            raise
        finally:
            self._count -= 1
            self._bytes -= size_bytes

    def _check(self, client: str, queue: deque["asyncio.Future[Peers]"], size_bytes: int) -> None:
        too_many = len(queue) >= WAITING_OF_CLIENT_MAX or self._count >= WAITING_MAX
        if too_many or (self._bytes and self._bytes + size_bytes > WAITING_BYTES_MAX):
            if not queue:
                del self._waiting[client]
            raise KafkaError(
                Errors.THROTTLING_QUOTA_EXCEEDED,
                "Too many requests wait for the active controller; send fewer at once, and this one later.",
            )

    def _next(self) -> None:
        while self._free:
            client = next((each for each in self._waiting if each not in self._on_their_way), None)
            if client is None:
                return
            queue = self._waiting[client]
            turn = queue.popleft()
            if not queue:
                del self._waiting[client]
            if not turn.done():
                self._on_their_way.add(client)
                turn.set_result(self._free.pop())

    def _give_back(self, client: str, peers: Peers) -> None:
        self._on_their_way.discard(client)
        if (queue := self._waiting.pop(client, None)) is not None:
            self._waiting[client] = queue  # behind the other clients
        self._free.append(peers)
        self._next()

    def close(self) -> None:
        """Closes the connections."""
        for each in self._all:
            each.close()
