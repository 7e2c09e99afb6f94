"""Opens what connects a registry to its cluster; tests put simulated ones in its place."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from bowstring.registry.store.elector import Elector
from bowstring.registry.store.schemas_topic import prepare_topic
from bowstring.registry.store.store_target import StoreTarget
from bowstring.registry.store.store_thread import StoreEvents, StoreThread
from bowstring.registry.store.topic_reader import ReadRecords, TopicReader

Post = Callable[..., None]


class Connections:
    """The threads of one registry.

    Args:
        target: the cluster, the topic and the group.
    """

    def __init__(self, target: StoreTarget):
        self.target = target

    def now(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic()

    def timestamp_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(time.time() * 1000)

    async def prepare(self, replication_factor: int, timeout_s: float) -> None:
        """Creates the topic, or checks it; raises what `prepare_topic` does.

        Its thread does not keep a program that is stopped meanwhile from ending.
        """
        loop = asyncio.get_running_loop()
        prepared: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            error: Exception | None = None
            try:
                prepare_topic(self.target, replication_factor, timeout_s)
            except Exception as raised:  # raised by the waiting task
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_finish, prepared, error)

        threading.Thread(target=work, name="bowstring-registry-start", daemon=True).start()
        await prepared

    def open_store(self, elector: Elector, events: StoreEvents, post: Post) -> StoreThread:
        """Returns the thread of the group and of writes, which is not started."""
        return StoreThread(self.target, elector, events, post)

    def open_reader(self, deliver: Callable[[ReadRecords], None], post: Post) -> TopicReader:
        """Returns the thread that reads the topic, which is not started."""
        return TopicReader(self.target, deliver, post)

    async def close(self, *threads: Any) -> None:
        """Stops the threads."""
        await asyncio.gather(*(asyncio.to_thread(thread.stop) for thread in threads))


def _finish(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
