"""Implements ShareConsumer for asyncio: one thread polls, and passes whole batches of records to the loop."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.aio.dead_letters import sent_on_loop
from bowstring.aio.worker import Worker, WorkersClient, awaited, listen_on_loop, same_arguments
from bowstring.clients.arguments import checked_methods
from bowstring.clients.choices import Layout, TimestampUnit
from bowstring.clients.records import TopicPartition
from bowstring.clients.share.consumer import ShareConsumer as ThreadedShareConsumer
from bowstring.clients.share.records import ShareRecord
from bowstring.clients.timeouts import seconds

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


@checked_methods()
class ShareConsumer(WorkersClient):
    """Reads records of a share group; belongs to one event loop.

    Takes the arguments of `bowstring.ShareConsumer`; its methods take those of ShareConsumer's methods. The
    records of a cancelled poll are released. on_acknowledged is called on the client's thread.

    Examples:
        >>> async def main():
        ...     async with bowstring.aio.ShareConsumer("localhost:9092", group_id="jobs") as consumer:
        ...         await consumer.subscribe("greetings")
        ...         print(await consumer.poll(timeout=0))
        >>> asyncio.run(main())
        []
    """

    @same_arguments(ThreadedShareConsumer.__init__)
    def __init__(self, *args: Any, **keywords: Any):
        letters = sent_on_loop(keywords)
        self._consumer = ThreadedShareConsumer(*args, **keywords)
        self._worker = Worker("ShareConsumer", self._consumer.wakeup)
        if letters is not None:
            letters.worker = self._worker
        client = self._consumer
        self._listener = listen_on_loop(client.troubles, self._worker, client.listener)
        self._closed = False
        self._finalizer = weakref.finalize(self, self._worker.stop, wait=True)

    async def _call(self, method: Callable[..., T], *args: Any, **keywords: Any) -> T:
        return await self._worker.call(functools.partial(method, self._consumer, *args, **keywords))

    subscribe = awaited(ThreadedShareConsumer.subscribe)
    unsubscribe = awaited(ThreadedShareConsumer.unsubscribe)
    acknowledge = awaited(ThreadedShareConsumer.acknowledge)
    accept = awaited(ThreadedShareConsumer.accept)
    release = awaited(ThreadedShareConsumer.release)
    reject = awaited(ThreadedShareConsumer.reject)
    renew = awaited(ThreadedShareConsumer.renew)
    commit_sync = awaited(ThreadedShareConsumer.commit_sync)
    commit_async = awaited(ThreadedShareConsumer.commit_async)

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return self._consumer.subscription()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this member reads at present; others may read them, too."""
        return self._consumer.assignment()

    @property
    def lock_timeout_ms(self) -> int:
        """Milliseconds for which delivered records stay with this consumer; 0 before the first answer."""
        return self._consumer.lock_timeout_ms

    async def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> list[ShareRecord]:
        """Like `bowstring.ShareConsumer.poll`."""
        return await self._read(functools.partial(self._consumer.poll, max_records=max_records), len, timeout)

    def undecodable_counts(self) -> dict[str, int]:
        """Like `bowstring.ShareConsumer.undecodable_counts`."""
        return self._consumer.undecodable_counts()

    async def poll_arrow(
        self,
        timeout: float | None = 1.0,
        *,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> pa.RecordBatch:
        """Like `bowstring.ShareConsumer.poll_arrow`."""
        names = None if columns is None else tuple(columns)

        def take(left: float) -> pa.RecordBatch:
            return self._consumer.poll_arrow(
                left, columns=names, layout=layout, timestamp_unit=timestamp_unit
            )

        return await self._read(take, lambda batch: batch.num_rows, timeout)

    async def _read(self, take: Callable[[float], T], size: Callable[[T], int], timeout: float | None) -> T:
        """Polls until something arrives or time is over; other calls may interrupt a poll that waits."""
        left = seconds(timeout)
        deadline = time.monotonic() + left
        while True:
            taken = await self._worker.call(
                functools.partial(take, max(0.0, left)),
                undo=lambda _: self._consumer.give_back(),
                interruptible=True,
            )
            left = deadline - time.monotonic()
            if size(taken) or left <= 0:
                return taken

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Yields records without end; ends when the consumer is closed meanwhile."""
        while not self._closed:
            for record in await self.poll():
                yield record

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(accept=kind is None)

    async def close(self, *, accept: bool = True) -> None:
        """Like `bowstring.ShareConsumer.close`."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._worker.call(functools.partial(self._consumer.close, accept=accept), required=True)
        finally:
            self._finalizer.detach()
            self._worker.stop()
