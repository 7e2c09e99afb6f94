"""Sends the records of requests, and lets each request wait for the outcome of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.clients.errors import ClientError
from bowstring.rest.callers import CALLS_OF_ALL, CALLS_OF_ONE
from bowstring.rest.loop_wakeup import LoopWakeup
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.producer.producer import Producer
    from bowstring.rest.callers import Caller

T = TypeVar("T")
Row = tuple[bytes | None, bytes | None, int | None]

RECORD_OVERHEAD_BYTES = 128
WAITING_MAX = 1_000
"""Requests of a caller that wait for its producer's memory, for a topic, or for schemas; others are refused.
Their bodies, or records, are together no larger than the memory."""


class _Waiting:
    """Counts the records of one request that have an outcome. Its callback runs in the producer's thread."""

    __slots__ = ("_counted", "_last", "_owner", "ended")

    def __init__(self, owner: Deliveries, records: int):
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner, self._counted, self._last = owner, itertools.count(1), records

    def one_done(self, future: Any) -> None:
        """Counts one."""
        if next(self._counted) == self._last:  # which is atomic
            self._owner.post(self)


class Deliveries:
    """What the requests of one caller share. Belongs to the event loop.

    Args:
        caller: of the requests.
        buffer_memory: bytes that its producer holds at most.
    """

    def __init__(self, caller: Caller, buffer_memory: int):
        self._caller, self._buffer_memory = caller, buffer_memory
        self._ended: deque[_Waiting] = deque()
        self._wakeup = LoopWakeup(self._wake)
        self._waiting = self._waiting_bytes = 0
        self._encoding = asyncio.Semaphore(CALLS_OF_ALL if caller.user is None else CALLS_OF_ONE)

    # ------------------------------------------------------------ sending

    @contextmanager
    def _counted(self, size: int) -> Iterator[None]:
        """Counts a request that waits.

        Raises:
            HttpError: 429, too many do.
        """
        is_full = self._waiting_bytes + size > self._buffer_memory
        if self._waiting >= WAITING_MAX or (is_full and self._waiting):
            raise HttpError(429, 42901, "the cluster is slower than the requests; send this again later")
        self._waiting += 1
        self._waiting_bytes += size
        try:
            yield
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size

    async def encode(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function that may ask the registry in a thread; returns what it returns.

        Args:
            size: bytes of the request.
            function: the function.
            arguments: of it.

        Raises:
            HttpError: 429, too many requests wait already.
        """
        with self._counted(size):
            async with self._encoding:
                return await self._caller.thread(function, *arguments)

    async def ready(self, topic: str, size: int) -> Producer:
        """Returns the producer once it takes records of a topic without waiting.

        Args:
            topic: where records go.
            size: bytes of all of them.

        Raises:
            HttpError: 429, too many requests wait already.
            ClientError: the topic does not exist, or the brokers do not answer.
        """
        producer = await self._caller.ready_producer()
        room = min(size, self._buffer_memory // 2)
        while producer.would_block(topic, room):
            with self._counted(size):
                await self._caller.thread(self._caller.await_ready, topic, room)
        return producer

    async def send(self, producer: Producer, topic: str, rows: list[Row], size: int) -> list[Any]:
        """Sends records; returns for each the metadata, or the ClientError that says why it failed.

        Args:
            producer: of `ready`.
            topic: where records go.
            rows: key, value and partition of each.
            size: bytes of all of them.

        Raises:
            HttpError: 429, too many requests wait already.
        """
        if size > self._buffer_memory // 2:  # it may wait for room
            with self._counted(size):
                sent = await self._caller.thread(_sent, producer, topic, rows)
        else:
            sent = _sent(producer, topic, rows)
        pending = [each for each in sent if not isinstance(each, ClientError)]
        if pending:
            waiting = _Waiting(self, len(pending))
            for each in pending:
                each.add_done_callback(waiting.one_done)
            with producer.accumulator.flushing():  # no record of this request waits for more
                await waiting.ended
        return [each if isinstance(each, ClientError) else _outcome(each) for each in sent]

    # ------------------------------------------------------------ waking

    def post(self, waiting: _Waiting) -> None:
        """Wakes a request. Any thread may call; one step of the loop wakes all that ended meanwhile."""
        self._ended.append(waiting)
        self._wakeup.post()

    def _wake(self) -> None:
        while self._ended:
            ended = self._ended.popleft().ended
            if not ended.done():
                ended.set_result(None)


def size_of(rows: list[Row]) -> int:
    """Returns the bytes that records take of the producer's memory, or a little more."""
    return sum(
        RECORD_OVERHEAD_BYTES + (0 if key is None else len(key)) + (0 if value is None else len(value))
        for key, value, _ in rows
    )


def _sent(producer: Producer, topic: str, rows: list[Row]) -> list[Any]:
    """Sends records; returns a future, or the error, for each."""
    sent: list[Any] = []
    for key, value, partition in rows:
        try:
            sent.append(producer.send(topic, value, key, partition=partition))
        except ClientError as error:
            sent.append(error)
    return sent


def _outcome(future: Any) -> Any:
    error = future.exception(0)
    return future.result(0) if error is None else error
