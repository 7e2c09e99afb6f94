"""Orders the requests to the active controller that this node sends on for its clients.

One request of each client is on its way at a time, so that its requests keep their order; clients take turns.
Waiting requests are bounded for each client and in all; where the controller is in this process, and answers
fast, only their bytes are. The broker's own requests, as heartbeats, do not come here.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys

OWN_CONNECTIONS: Final = {
    ApiKeys.BROKER_REGISTRATION: "registration and heartbeats",
    ApiKeys.BROKER_HEARTBEAT: "registration and heartbeats",
    ApiKeys.CONTROLLER_REGISTRATION: "registration and heartbeats",
    ApiKeys.ALTER_PARTITION: "AlterPartition",
    ApiKeys.ALLOCATE_PRODUCER_IDS: "AllocateProducerIds",
    ApiKeys.ASSIGN_REPLICAS_TO_DIRS: "AssignReplicasToDirs",
}
"""Connections of their own for a node's own requests to the active controller, by API key, as in Kafka: what
keeps the node alive in the cluster, or its partitions in service, does not wait behind other things.
"""
CONNECTIONS: Final = 4
"""Requests that are on their way at once."""
WAITING_MAX: Final = 1024
WAITING_OF_CLIENT_MAX: Final = 128
WAITING_BYTES_MAX: Final = 64 << 20


class Forwards:
    """The requests of clients to the active controller."""

    def __init__(self) -> None:
        self._free = list(range(CONNECTIONS))
        self._on_their_way: set[str] = set()
        # In the order of the clients' next turns.
        self._waiting: dict[str, deque[asyncio.Future[int]]] = {}
        self._count = 0
        self._bytes = 0

    @asynccontextmanager
    async def turn(
        self, client: str, size_bytes: int, timeout_s: float, *, counts: bool = True
    ) -> AsyncIterator[int]:
        """Waits for the client's turn; yields the number of its place among those on their way, from 0.

        Args:
            client: What distinguishes clients.
            size_bytes: Of the request, about.
            counts: Whether the number of requests that wait is bounded, not only their bytes.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED: too much waits already. REQUEST_TIMED_OUT: the turn did not
                come in time. The request has no effect then.
        """
        self._check(client, size_bytes, counts=counts)
        place = await self._wait(client, size_bytes, timeout_s)
        try:
            yield place
        finally:
            self._give_back(client, place)

    async def _wait(self, client: str, size_bytes: int, timeout_s: float) -> int:
        queue = self._waiting.setdefault(client, deque())
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
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

    def _check(self, client: str, size_bytes: int, *, counts: bool) -> None:
        too_many = len(self._waiting.get(client, ())) >= WAITING_OF_CLIENT_MAX or self._count >= WAITING_MAX
        if (counts and too_many) or (self._bytes and self._bytes + size_bytes > WAITING_BYTES_MAX):
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

    def _give_back(self, client: str, place: int) -> None:
        self._on_their_way.discard(client)
        if (queue := self._waiting.pop(client, None)) is not None:
            self._waiting[client] = queue  # behind the other clients
        self._free.append(place)
        self._next()
