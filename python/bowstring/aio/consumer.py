"""Implements Consumer for asyncio: one thread polls, and passes whole batches of records to the loop."""

from __future__ import annotations

import functools
import logging
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from bowstring.aio.dead_letters import sent_on_loop
from bowstring.aio.worker import Worker, WorkersClient, awaited, listen_on_loop, same_arguments
from bowstring.clients.arguments import checked_methods
from bowstring.clients.arrow.arrow_format import pyarrow
from bowstring.clients.choices import Layout, TimestampUnit
from bowstring.clients.consumer.consumer import Consumer as ThreadedConsumer
from bowstring.clients.consumer.coordinator import Listener
from bowstring.clients.consumer.record_reading import RawBatches
from bowstring.clients.errors import ClientError
from bowstring.clients.records import OffsetAndMetadata, Record, SubscriptionPattern, TopicPartition
from bowstring.clients.timeouts import most_records, seconds

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

AsyncListener = Callable[[list[TopicPartition]], Awaitable[object] | object]
# Runs a coroutine function on the loop and waits for it.
OnLoop = Callable[[Callable[[], Awaitable[object]]], None]
Positions = dict[TopicPartition, int]

_log = logging.getLogger("bowstring.consumer")


class Taken(NamedTuple, Generic[T]):
    """The result of a poll, and the positions before and after it."""

    records: T
    before: Positions
    after: Positions


@checked_methods()
class Consumer(WorkersClient):
    """Reads records; belongs to one event loop.

    Takes the arguments of `bowstring.Consumer`; its methods take those of Consumer's methods. Methods that
    need brokers or change what is read are coroutines. A cancelled poll loses nothing: the next poll reads
    the same records again. Other calls are served while a poll waits.

    Examples:
        >>> async def main():
        ...     async with bowstring.aio.Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
        ...         await consumer.assign([("greetings", 0)])
        ...         async for record in consumer:
        ...             print(record.key, record.value)
        ...             break
        >>> asyncio.run(main())
        b'me' b'hello'
    """

    @same_arguments(ThreadedConsumer.__init__)
    def __init__(self, *args: Any, **keywords: Any):
        letters = sent_on_loop(keywords)
        self._consumer = ThreadedConsumer(*args, **keywords)
        self._worker = Worker("Consumer", self._consumer.wakeup)
        if letters is not None:
            letters.worker = self._worker
        client = self._consumer
        self._listener = listen_on_loop(client.troubles, self._worker, client.listener)
        # Records that iteration has taken from the consumer and not yielded yet; the positions are after
        # them.
        self._unread: deque[Record] = deque()
        # The unfinished records that were returned last; None: the last poll's records are unfinished.
        self._at_hand: list[Record] | None = []
        self._closed = False
        self._finalizer = weakref.finalize(self, self._worker.stop, wait=True)

    async def _call(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        return await self._worker.call(functools.partial(method, self._consumer, *args, **keywords))

    async def _call_at_position(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        """Makes a call that needs the positions of the caller: first returns unread records to the
        consumer.
        """
        self._give_back()
        return await self._call(method, *args, **keywords)

    # ------------------------------------------------------------ what to read

    async def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | SubscriptionPattern | None = None,
        on_assigned: AsyncListener | None = None,
        on_revoked: AsyncListener | None = None,
        on_lost: AsyncListener | None = None,
    ) -> None:
        """Like `bowstring.Consumer.subscribe`; the listeners are functions or coroutine functions.

        They run on the loop while the poll that caused them waits, and may commit and seek.
        """
        listeners = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        on_loop = {name: self._on_loop(listener) for name, listener in listeners.items()}
        await self._call_at_position(ThreadedConsumer.subscribe, topics, pattern=pattern, **on_loop)

    def _on_loop(self, listener: AsyncListener | None) -> Listener | None:
        if listener is None:
            return None
        worker = self._worker
        return lambda partitions: worker.on_loop(functools.partial(listener, partitions))

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Like `bowstring.Consumer.assign`."""
        await self._call_at_position(ThreadedConsumer.assign, list(partitions))

    async def unsubscribe(self) -> None:
        """Like `bowstring.Consumer.unsubscribe`."""
        await self._call_at_position(ThreadedConsumer.unsubscribe)

    async def pause(self, *partitions: TopicPartition) -> None:
        """Like `bowstring.Consumer.pause`."""
        await self._call_at_position(ThreadedConsumer.pause, *partitions)

    resume = awaited(ThreadedConsumer.resume)
    partitions_for = awaited(ThreadedConsumer.partitions_for)

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return self._consumer.assignment()

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return self._consumer.subscription()

    def undecodable_counts(self) -> dict[str, int]:
        """Like `bowstring.Consumer.undecodable_counts`."""
        return self._consumer.undecodable_counts()

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return self._consumer.paused()

    # ------------------------------------------------------------ reading

    async def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> list[Record]:
        """Like `bowstring.Consumer.poll`."""
        if self._unread:
            count = min(len(self._unread), most_records(max_records, len(self._unread)))
            self._at_hand = [self._unread.popleft() for _ in range(count)]
            return self._at_hand.copy()
        return await self._read(lambda: self._consumer.poll(0, max_records=max_records), timeout) or []

    async def poll_batches(self, timeout: float | None = 1.0) -> list[RawBatches]:
        """Like `bowstring.Consumer.poll_batches`."""
        return await self._read(lambda: self._consumer.poll_batches(0), timeout) or []

    async def poll_arrow(
        self,
        timeout: float | None = 1.0,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> pa.RecordBatch:
        """Like `bowstring.Consumer.poll_arrow`: returns arrived records as one batch of columns."""
        consumer = self._consumer
        names = None if columns is None else tuple(columns)

        def take() -> pa.RecordBatch:
            return consumer.poll_arrow(
                0,
                max_records=max_records,
                max_bytes=max_bytes,
                columns=names,
                layout=layout,
                timestamp_unit=timestamp_unit,
            )

        batch = await self._read(take, timeout)
        if batch is not None:
            return batch
        schema = consumer.arrow_schema(columns=names, layout=layout, timestamp_unit=timestamp_unit)
        # Built from nulls: pyarrow imports pandas to convert Python values, which would block the loop.
        columns_of_none = [pyarrow().nulls(0, field.type) for field in schema]
        return pyarrow().RecordBatch.from_arrays(columns_of_none, schema=schema)

    async def batches(
        self,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields future records as Arrow batches: `async for batch in consumer.batches()`.

        The counterpart of `bowstring.Consumer.to_reader`. It ends when no records have come for `timeout`
        seconds; with None, when the consumer is closed. The position moves as batches are returned.

        Args:
            max_records, max_bytes: most rows and bytes of one batch, as for `poll_arrow`.
            timeout: seconds without records after which the iteration ends; None for never.
            columns, layout, timestamp_unit: as for `bowstring.Consumer.poll_arrow`.
        """
        names = None if columns is None else tuple(columns)
        while not self._closed:
            batch = await self.poll_arrow(
                1.0 if timeout is None else timeout,
                max_records=max_records,
                max_bytes=max_bytes,
                columns=names,
                layout=layout,
                timestamp_unit=timestamp_unit,
            )
            if batch.num_rows:
                yield batch
            elif timeout is not None:
                return

    async def _read(self, take: Callable[[], T], timeout: float | None) -> T | None:
        """Waits until `take`, a poll without waiting, finds something; returns None when time is over."""
        left = seconds(timeout)
        deadline = time.monotonic() + left
        self._give_back()
        self._at_hand = []
        while True:
            taken: Taken[T] | None = await self._worker.call(
                functools.partial(self._take, take, max(0.0, left)),
                undo=self._put_back,
                interruptible=True,
            )
            if taken is not None and taken.records:
                self._at_hand = None
                return taken.records
            left = deadline - time.monotonic()
            if left <= 0:
                return None

    async def __anext__(self) -> Record:
        self._at_hand = []
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            self._unread.extend(await self.poll())
        record = self._unread.popleft()
        self._at_hand = [record]
        return record

    def __aiter__(self) -> AsyncIterator[Record]:
        """Yields records without end; ends when the consumer is closed meanwhile."""
        return self

    # ------------------------------------------------------------ on the thread

    def _take(self, take: Callable[[], T], timeout: float) -> Taken[T] | None:
        consumer = self._consumer
        if not consumer.await_records(timeout):
            return None
        before = consumer.positions()
        records = take()
        return Taken(records, before, consumer.positions())

    def _put_back(self, taken: Taken[Any] | None) -> None:
        """Moves positions back after nobody received the records, unless they were moved since."""
        if taken is not None:
            now = self._consumer.positions()
            moved = {p: at for p, at in taken.after.items() if taken.before.get(p, at) != at == now.get(p)}
            self._seek({partition: taken.before[partition] for partition in moved})

    def _seek(self, positions: Positions) -> None:
        assigned = self._consumer.assignment() if positions else ()
        for partition, offset in positions.items():
            if partition in assigned:
                self._consumer.seek(partition, offset)

    # ------------------------------------------------------------ positions

    def _first_unread(self) -> Positions:
        found: Positions = {}
        for record in self._unread:
            found.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return found

    def _give_back(self) -> None:
        """Returns unread records to the consumer, so that the next call reads them again."""
        if self._unread:
            unread = self._first_unread()
            self._unread.clear()
            self._worker.post(functools.partial(self._seek, unread))

    async def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """Like `bowstring.Consumer.seek`."""
        await self._call_at_position(ThreadedConsumer.seek, partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Like `bowstring.Consumer.seek_to_beginning`."""
        await self._call_at_position(ThreadedConsumer.seek_to_beginning, *partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Like `bowstring.Consumer.seek_to_end`."""
        await self._call_at_position(ThreadedConsumer.seek_to_end, *partitions)

    async def position(
        self, partition: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> int:
        """Like `bowstring.Consumer.position`."""
        known = self._first_unread().get(TopicPartition(*partition))
        if known is not None:
            return known
        return await self._call_at_position(ThreadedConsumer.position, partition, timeout)

    def positions(self) -> Positions:
        """Returns the known position of every assigned partition, without a request."""
        return {**self._consumer.positions(), **self._first_unread()}

    def lag(self, partition: TopicPartition) -> int | None:
        """Returns the number of records between the position and the last known end; None while unknown."""
        lag = self._consumer.lag(partition)
        unread = self._first_unread().get(partition)
        if lag is None or unread is None:
            return lag
        return lag + self._consumer.positions().get(partition, unread) - unread

    offsets_for_times = awaited(ThreadedConsumer.offsets_for_times)
    beginning_offsets = awaited(ThreadedConsumer.beginning_offsets)
    end_offsets = awaited(ThreadedConsumer.end_offsets)
    committed = awaited(ThreadedConsumer.committed)
    get_watermark_offsets = awaited(ThreadedConsumer.get_watermark_offsets)
    list_topics = awaited(ThreadedConsumer.list_topics)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record | None = None,
        *,
        asynchronous: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Like `bowstring.Consumer.commit`; without offsets it commits the records returned so far."""
        unread = self._first_unread()

        def call() -> None:
            given = {**self._consumer.positions(), **unread} if offsets is None and unread else offsets
            self._consumer.commit(given, asynchronous=asynchronous, timeout=timeout)

        await self._worker.call(call)

    # ------------------------------------------------------------ transactions

    group_metadata = awaited(ThreadedConsumer.group_metadata)

    async def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what `commit` stores without arguments: the position in each partition that has one."""
        return await self._call_at_position(ThreadedConsumer.consumed)

    def wakeup(self) -> None:
        """Like `bowstring.Consumer.wakeup`."""
        self._consumer.wakeup()

    async def lend(self, call: Callable[[ThreadedConsumer, OnLoop], T]) -> T:
        """Runs `call` in the consumer's thread, with the blocking consumer and a function that runs coroutine
        functions on the loop and waits for them. For `transform`.

        Args:
            call: a function of both.
        """
        self._give_back()
        run = self._worker.on_loop
        return await self._worker.call(functools.partial(call, self._consumer, run), required=True)

    # ------------------------------------------------------------ the end

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        try:
            self._take_back()
            await self.close()
        except ClientError as failure:  # the exception of the block takes precedence
            _log.warning("closing the consumer failed, so its last commit may be missing: %s", failure)

    def _take_back(self) -> None:
        """Moves positions back before the records returned last, which are unfinished."""
        if self._closed:
            return
        if self._at_hand is None:
            self._worker.post(self._consumer.take_back)
        else:
            self._unread.extendleft(reversed(self._at_hand))
        self._at_hand = []

    async def close(self, autocommit: bool = True) -> None:
        """Commits (with enable_auto_commit), leaves the group and closes the connections.

        An `async with` block that ends by an exception, including a task's cancellation, does not commit the
        records returned last; see `bowstring.Consumer.close`.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._give_back()
            await self._worker.call(functools.partial(self._consumer.close, autocommit), required=True)
        finally:
            self._finalizer.detach()
            self._worker.stop()
