"""One consumer instance: its consumer, what was read and not returned yet, and the requests that use it.

Ownership: one operation at a time runs in a thread; all else belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.clients.errors import ClientError
from bowstring.clients.records import OffsetAndMetadata, Record, TopicPartition
from bowstring.rest.v2.consumed_values import ConsumedRecord, ConsumedValues
from bowstring.rest.v2.consumer_settings import ConsumerSettings
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.consumer.consumer import Consumer

T = TypeVar("T")

WAITING_MAX = 8
"""Requests to one instance at a time; others are refused."""
POLL_RECORDS_MAX = 5_000
ANSWER_RECORDS_MAX = 100_000
MORE_S = 0.05
"""How long a read that has enough waits for more, such as another broker's; so does Confluent's proxy."""
FIRST_BYTES = 256
"""What a record takes before one was read."""


class ConsumerInstance:
    """One consumer instance.

    Args:
        settings: of the instance.
        values: converts its records.
        make: makes its consumer, in the first thread that uses it.
        threads: run its operations.

    Attributes:
        settings: as given.
        used_at: time.monotonic() of the last request.
        subscribed: whether its group assigns partitions. Belongs to operations.
        ended: it was deleted, or closed.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        values: ConsumedValues,
        make: Callable[[], Consumer],
        threads: Executor,
    ):
        self.settings, self._values = settings, values
        self._make, self._threads = make, threads
        self._made: Consumer | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.used_at = time.monotonic()
        self.subscribed = self.ended = False
        self._interrupted = False
        self._unreturned: deque[Record] = deque()
        self._record_bytes = FIRST_BYTES

    # ------------------------------------------------------------ on the event loop

    @property
    def is_used(self) -> bool:
        """Whether requests use it."""
        return self._waiting > 0

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs an operation in a thread, after those that came before.

        Raises:
            HttpError: 429, too many requests wait; 40403, it was deleted meanwhile.
            ClientError: as the operation raises it.
        """
        if self._waiting >= WAITING_MAX:
            raise HttpError(429, 42901, f"{WAITING_MAX} requests use the consumer instance; wait for them")
        self._waiting += 1
        try:
            await self._turn.acquire()
        except BaseException:
            self._waiting -= 1
            raise
        if self.ended:
            self._free(None)
            raise missing_instance()
        running = self._start(function, *arguments)
        running.add_done_callback(self._free)
        # The thread goes on when the caller has left: only its end lets the next one in.
        return await asyncio.shield(running)

    def _start(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        call = functools.partial(function, *arguments)
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _free(self, ended: asyncio.Future[Any] | None) -> None:
        self._waiting -= 1
        self.used_at = time.monotonic()
        self._turn.release()
        if ended is not None and not ended.cancelled():
            ended.exception()  # seen: the caller may be gone

    def interrupt(self) -> None:
        """Makes a read that waits return what it has."""
        self._interrupted = True
        made = self._made
        if made is not None:
            made.wakeup()

    async def end(self) -> None:
        """Ends it: requests that wait are refused; it leaves the group, and commits if it does that.

        Raises:
            ClientError: the last commit failed.
        """
        self.ended = True
        self.interrupt()
        async with self._turn:
            await asyncio.shield(self._start(self._close))

    # ------------------------------------------------------------ in a thread

    def consumer(self) -> Consumer:
        """Returns the consumer; makes it."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def read(self, wait_s: float, bytes_max: int) -> tuple[list[Record], list[ConsumedRecord]]:
        """Returns records as they were read, and as answers have them.

        Args:
            wait_s: how long to wait for them.
            bytes_max: of keys and values; one record may be larger.

        Raises:
            HttpError: 50002, the first record does not decode.
            ClientError: reading fails.
        """
        consumer, deadline = self.consumer(), time.monotonic() + wait_s
        least = max(1, self.settings.min_bytes)
        taken: list[Record] = []
        found: list[ConsumedRecord] = []
        size = 0
        self._interrupted = False
        while True:
            size, is_full = self._take(taken, found, size, bytes_max)
            left = deadline - time.monotonic()
            if is_full or self._interrupted or (left <= 0 and taken):
                break
            is_enough = size >= least and bool(taken)
            room = max(1, min(POLL_RECORDS_MAX, (bytes_max - size) // self._record_bytes))
            try:
                most_s = min(left, MORE_S) if is_enough else left
                self._unreturned.extend(consumer.poll(max(0.0, most_s), max_records=room))
            except ClientError:
                self.take_back(taken)
                raise
            if not self._unreturned and (is_enough or left <= 0):
                break
        return taken, found

    def _take(
        self, taken: list[Record], found: list[ConsumedRecord], size: int, bytes_max: int
    ) -> tuple[int, bool]:
        """Takes records that were read, as many as fit; returns the bytes of all, and whether that is all."""
        waiting = self._unreturned
        while waiting:
            record = waiting[0]
            added = len(record.key or b"") + len(record.value or b"")
            if taken and (size + added > bytes_max or len(taken) >= ANSWER_RECORDS_MAX):
                return size, True
            try:
                found.append(self._values.record(record))
            except HttpError:
                if not taken:
                    raise
                return size, True  # the next read fails
            taken.append(waiting.popleft())
            size += added
            self._record_bytes = max(1, (7 * self._record_bytes + added) // 8)
        return size, False

    def take_back(self, taken: list[Record]) -> None:
        """Lets the next read return these records again: nobody got them."""
        self._unreturned.extendleft(reversed(taken))

    def forget_unreturned(self, partitions: Iterable[TopicPartition]) -> None:
        """Drops records of partitions that were read and not returned."""
        dropped = set(partitions)
        kept = [each for each in self._unreturned if (each.topic, each.partition) not in dropped]
        self._unreturned = deque(kept)

    def seek_to_unreturned(self) -> None:
        """Moves the consumer back to what was not returned, so that nobody commits it."""
        consumer = self.consumer()
        assigned = consumer.assignment()
        for partition, offset in self._first_unreturned().items():
            if partition in assigned:
                consumer.seek(partition, offset)
        self._unreturned.clear()

    def _first_unreturned(self) -> dict[TopicPartition, int]:
        first: dict[TopicPartition, int] = {}
        for each in self._unreturned:
            first.setdefault(TopicPartition(each.topic, each.partition), each.offset)
        return first

    def commit(self, given: dict[TopicPartition, OffsetAndMetadata] | None, *, asynchronous: bool) -> None:
        """Commits offsets; without any, all that was returned.

        Args:
            given: offsets of the records to read next.
            asynchronous: does not wait.
        """
        consumer = self.consumer()
        if given is not None:
            consumer.commit(given)
            return
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in consumer.positions().items()}
        for partition, first in self._first_unreturned().items():
            if partition in offsets:
                offsets[partition] = OffsetAndMetadata(first)
        if offsets:
            consumer.commit(offsets, asynchronous=asynchronous)

    def _close(self) -> None:
        if self._made is None:
            return
        try:
            self.seek_to_unreturned()
        finally:
            self._made.close()


def missing_instance() -> HttpError:
    """Returns the error of an instance that does not exist, or is another caller's."""
    return HttpError(404, 40403, "Consumer instance not found. Make one, or use the name of yours.")
