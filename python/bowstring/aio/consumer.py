"""Consumer for asyncio: one thread polls for it, whole batches of records cross to the loop."""

from __future__ import annotations

import functools
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from bowstring.aio.worker import Worker, WorkersClient, awaited, same_arguments
from bowstring.clients.arrow_columns import pyarrow
from bowstring.clients.consumer import Consumer as ThreadedConsumer
from bowstring.clients.consumer import RawBatches
from bowstring.clients.membership import Listener
from bowstring.clients.records import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

AsyncListener = Callable[[list[TopicPartition]], Awaitable[object] | object]
Positions = dict[TopicPartition, int]


class Taken(NamedTuple, Generic[T]):
    """What a poll took, and the positions on both sides of it."""

    records: T
    before: Positions
    after: Positions


class Consumer(WorkersClient):
    """Reads records; belongs to one event loop.

    Takes the arguments of `bowstring.Consumer`, and its methods have theirs; those that ask brokers or change
    what is read are coroutines. A poll that is cancelled loses nothing: what it had taken is read again by
    the next. While a poll waits, the other calls are served.

    Example:
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
        self._consumer = ThreadedConsumer(*args, **keywords)
        self._worker = Worker("Consumer", self._consumer.wakeup)
        # Taken from the consumer by iteration and not handed out yet; its positions are behind them.
        self._unread: deque[Record] = deque()
        self._closed = False
        self._finalizer = weakref.finalize(self, self._worker.stop, wait=True)

    async def _call(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        return await self._worker.call(functools.partial(method, self._consumer, *args, **keywords))

    async def _settled_call(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        """A call that needs the positions to be the reader's own: what is unread goes back first."""
        self._give_back()
        return await self._call(method, *args, **keywords)

    # ------------------------------------------------------------ what to read

    async def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | None = None,
        on_assigned: AsyncListener | None = None,
        on_revoked: AsyncListener | None = None,
        on_lost: AsyncListener | None = None,
    ) -> None:
        """As `bowstring.Consumer.subscribe`; the listeners are functions or coroutine functions.

        They run on the loop while the poll that led to them waits, and may commit and seek.
        """
        listeners = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        on_loop = {name: self._on_loop(listener) for name, listener in listeners.items()}
        await self._settled_call(ThreadedConsumer.subscribe, topics, pattern=pattern, **on_loop)

    def _on_loop(self, listener: AsyncListener | None) -> Listener | None:
        if listener is None:
            return None
        worker = self._worker
        return lambda partitions: worker.on_loop(functools.partial(listener, partitions))

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """As `bowstring.Consumer.assign`."""
        await self._settled_call(ThreadedConsumer.assign, list(partitions))

    async def unsubscribe(self) -> None:
        """As `bowstring.Consumer.unsubscribe`."""
        await self._settled_call(ThreadedConsumer.unsubscribe)

    async def pause(self, *partitions: TopicPartition) -> None:
        """As `bowstring.Consumer.pause`."""
        await self._settled_call(ThreadedConsumer.pause, *partitions)

    resume = awaited(ThreadedConsumer.resume)
    partitions_for = awaited(ThreadedConsumer.partitions_for)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return self._consumer.assignment()

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return self._consumer.subscription()

    def paused(self) -> set[TopicPartition]:
        """Those that are paused."""
        return self._consumer.paused()

    # ------------------------------------------------------------ reading

    async def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[Record]:
        """As `bowstring.Consumer.poll`."""
        if self._unread:
            count = min(len(self._unread), max_records or len(self._unread))
            return [self._unread.popleft() for _ in range(count)]
        return await self._read(lambda: self._consumer.poll(max_records, 0), timeout) or []

    async def poll_batches(self, timeout: float = 1.0) -> list[RawBatches]:
        """As `bowstring.Consumer.poll_batches`."""
        return await self._read(lambda: self._consumer.poll_batches(0), timeout) or []

    async def poll_arrow(
        self,
        max_records: int | None = None,
        max_bytes: int | None = None,
        timeout: float = 1.0,
        *,
        columns: Iterable[str] | None = None,
        layout: str = "binary",
        timestamp_unit: str = "ms",
    ) -> pa.RecordBatch:
        """As `bowstring.Consumer.poll_arrow`: records that have arrived, as one batch of columns."""
        consumer = self._consumer
        names = None if columns is None else tuple(columns)

        def take() -> pa.RecordBatch:
            return consumer.poll_arrow(
                max_records, max_bytes, 0, columns=names, layout=layout, timestamp_unit=timestamp_unit
            )

        batch = await self._read(take, timeout)
        if batch is not None:
            return batch
        schema = consumer.arrow_schema(columns=names, layout=layout, timestamp_unit=timestamp_unit)
        # Made of nulls: from Python values pyarrow would first import pandas, and hold up the loop.
        columns_of_none = [pyarrow().nulls(0, field.type) for field in schema]
        return pyarrow().RecordBatch.from_arrays(columns_of_none, schema=schema)

    async def batches(
        self,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
        columns: Iterable[str] | None = None,
        layout: str = "binary",
        timestamp_unit: str = "ms",
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The records to come as Arrow batches: `async for batch in consumer.batches()`.

        What `bowstring.Consumer.to_reader` is to threads. It ends when nothing has come for `timeout`
        seconds; None: when the consumer is closed. The position moves as batches are handed out.
        """
        names = None if columns is None else tuple(columns)
        while not self._closed:
            batch = await self.poll_arrow(
                max_records,
                max_bytes,
                1.0 if timeout is None else timeout,
                columns=names,
                layout=layout,
                timestamp_unit=timestamp_unit,
            )
            if batch.num_rows:
                yield batch
            elif timeout is not None:
                return

    async def _read(self, take: Callable[[], T], timeout: float) -> T | None:
        """Waits until `take`, a poll that waits for nothing, finds something; None when time is over."""
        deadline = time.monotonic() + timeout
        self._give_back()
        left = timeout
        while True:
            taken: Taken[T] | None = await self._worker.call(
                functools.partial(self._take, take, max(0.0, left)),
                undo=self._put_back,
                interruptible=True,
            )
            if taken is not None and taken.records:
                return taken.records
            left = deadline - time.monotonic()
            if left <= 0:
                return None

    async def __anext__(self) -> Record:
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            self._unread.extend(await self.poll())
        return self._unread.popleft()

    def __aiter__(self) -> AsyncIterator[Record]:
        """Records without end; ends when the consumer is closed in between."""
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
        """Nobody received these: the positions go back, where nobody moved them since."""
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
        """What is unread is read again by what comes next."""
        if self._unread:
            unread = self._first_unread()
            self._unread.clear()
            self._worker.post(functools.partial(self._seek, unread))

    async def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None:
        """As `bowstring.Consumer.seek`."""
        await self._settled_call(ThreadedConsumer.seek, partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """As `bowstring.Consumer.seek_to_beginning`."""
        await self._settled_call(ThreadedConsumer.seek_to_beginning, *partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """As `bowstring.Consumer.seek_to_end`."""
        await self._settled_call(ThreadedConsumer.seek_to_end, *partitions)

    async def position(
        self, partition: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> int:
        """As `bowstring.Consumer.position`."""
        known = self._first_unread().get(TopicPartition(*partition))
        if known is not None:
            return known
        return await self._settled_call(ThreadedConsumer.position, partition, timeout)

    def positions(self) -> Positions:
        """Where reading goes on in every assigned partition whose position is known; asks nobody."""
        return {**self._consumer.positions(), **self._first_unread()}

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end as last told by the broker; None while unknown."""
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
        """As `bowstring.Consumer.commit`; without offsets it stores how far records were handed out."""
        unread = self._first_unread()

        def call() -> None:
            given = {**self._consumer.positions(), **unread} if offsets is None and unread else offsets
            self._consumer.commit(given, asynchronous=asynchronous, timeout=timeout)

        await self._worker.call(call)

    # ------------------------------------------------------------ the end

    async def close(self) -> None:
        """Commits (with enable_auto_commit), leaves the group and closes the connections."""
        if self._closed:
            return
        self._closed = True
        try:
            self._give_back()
            await self._worker.call(self._consumer.close, required=True)
        finally:
            self._finalizer.detach()
            self._worker.stop()
