"""Implements `bowstring.transform` for asyncio: that runs in a thread, its function on the loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from bowstring import exactly_once
from bowstring.aio.consumer import Consumer
from bowstring.aio.producer import Producer

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.clients.records import Record


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

    Works as `bowstring.transform`, with its arguments, results and errors. `function` is a coroutine function
    and runs on the loop; the futures of `producer.send` need not be awaited. `until` is called in another
    thread. A cancelled transform aborts what is open. Until it ends, other calls of the consumer wait.

    Examples:
        >>> async def shout(records, producer):
        ...     for record in records:
        ...         producer.send("loud-greetings", record.value.upper(), record.key)
        >>> async def main():
        ...     settings = {"isolation_level": "read_committed", "enable_auto_commit": False}
        ...     async with (
        ...         bowstring.aio.Consumer(
        ...             group_id="shouters", auto_offset_reset="earliest", **settings
        ...         ) as consumer,
        ...         bowstring.aio.Producer(transactional_id="shouter-1") as producer,
        ...     ):
        ...         await consumer.subscribe("greetings")
        ...         print(await bowstring.aio.transform(consumer, shout, producer, timeout=2))
        >>> asyncio.run(main())
        1
    """
    stopped = threading.Event()

    async def on_loop(batch: Any) -> None:
        await function(batch, producer)
        await producer.settled()

    def call(client: Any, run: Callable[[Callable[[], Awaitable[object]]], None]) -> int:
        return exactly_once.transform(
            client,
            lambda batch, _: run(functools.partial(on_loop, batch)),
            producer.threaded,
            arrow=arrow,
            columns=columns,
            max_records=max_records,
            commit_interval_ms=commit_interval_ms,
            timeout=timeout,
            until=lambda: stopped.is_set() or (until is not None and until()),
        )

    running = asyncio.ensure_future(consumer.lend(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stopped.set()
        consumer.wakeup()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # the cancelled task takes precedence
        raise
