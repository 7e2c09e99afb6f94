"""Implements `bowstring.transform` for asyncio: that runs in a thread, its function on the loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from bowstring import exactly_once
from bowstring.aio.consumer import Consumer, OnLoop
from bowstring.aio.producer import Producer
from bowstring.clients.arguments import checked
from bowstring.clients.consumer.consumer import Consumer as ThreadedConsumer

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.clients.records import Record


@checked
async def transform(
    consumer: Consumer,
    function: Callable[[list[Record], Producer], Awaitable[object]]
    | Callable[[pa.RecordBatch, Producer], Awaitable[object]],
    producer: Producer,
    *,
    arrow: bool = False,
    columns: Sequence[str] | None = None,
    max_records: int | None = None,
    commit_interval_ms: float = 100,
    timeout: float | None = None,
    until: Callable[[], bool] | None = None,
) -> int:
    """Reads, awaits `function`, which sends, and commits both as one: each record takes effect exactly once.

    Works as `bowstring.transform`, with its arguments, results and errors. A cancelled transform aborts
    what is open. Until it ends, other calls of the consumer wait.

    Args:
        function: a coroutine function; runs on the loop, and need not await the futures of `producer.send`.
        consumer, producer, arrow, columns, max_records, commit_interval_ms, timeout: as there.
        until: as there; called in another thread.

    Examples:
        >>> async def shout(records, producer):
        ...     for record in records:
        ...         producer.send("loud-greetings", record.value.upper(), record.key)
        >>> async def main():
        ...     settings = {"isolation_level": "read_committed", "enable_auto_commit": False}
        ...     async with (
        ...         bowstring.aio.Consumer(
        ...             "localhost:9092", group_id="shouters", auto_offset_reset="earliest", **settings
        ...         ) as consumer,
        ...         bowstring.aio.Producer("localhost:9092", transactional_id="shouter-1") as producer,
        ...     ):
        ...         await consumer.subscribe("greetings")
        ...         print(await bowstring.aio.transform(consumer, shout, producer, timeout=2))
        >>> asyncio.run(main())
        1
    """
    options = {
        "arrow": arrow,
        "columns": columns,
        "max_records": max_records,
        "commit_interval_ms": commit_interval_ms,
        "timeout": timeout,
    }
    run = _Run(function, producer, options, until)
    running = asyncio.ensure_future(consumer.lend(run.call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        run.cancel()
        consumer.wakeup()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # the cancelled task takes precedence
        raise


class _Run:
    """One run of `transform`: what the consumer's thread calls, and how the loop cancels it."""

    def __init__(
        self,
        function: Callable[..., Awaitable[object]],
        producer: Producer,
        options: dict[str, Any],
        until: Callable[[], bool] | None,
    ):
        self._function = function
        self._producer = producer
        self._options = options
        self._until = until
        self._cancelled = threading.Event()
        self._processing: asyncio.Task[Any] | None = None

    def call(self, consumer: ThreadedConsumer, run: OnLoop) -> int:
        """Transforms. In the consumer's thread."""

        def on_loop(batch: Any, _: object) -> None:
            run(functools.partial(self._process, batch))

        return exactly_once.transform(
            consumer, on_loop, self._producer.threaded, until=self._ends, **self._options
        )

    def cancel(self) -> None:
        """Makes the transform abort and end: cancels the function, or the next step. On the loop."""
        self._cancelled.set()
        if self._processing is not None:
            self._processing.cancel()

    def _ends(self) -> bool:
        if self._cancelled.is_set():
            raise asyncio.CancelledError
        return self._until is not None and self._until()

    async def _process(self, batch: Any) -> None:
        if self._cancelled.is_set():
            raise asyncio.CancelledError
        self._processing = asyncio.current_task()
        try:
            await self._function(batch, self._producer)
            await self._producer.settled()
        finally:
            self._processing = None
