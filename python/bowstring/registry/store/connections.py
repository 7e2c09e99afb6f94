"""Opens what connects a registry to its cluster; tests put simulated ones in its place."""

from __future__ import annotations

import asyncio
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
        """Creates the topic, or checks it; raises what `prepare_topic` does."""
        await asyncio.to_thread(prepare_topic, self.target, replication_factor, timeout_s)

    def open_store(self, elector: Elector, events: StoreEvents, post: Post) -> StoreThread:
        """Returns the thread of the group and of writes, which is not started."""
        return StoreThread(self.target, elector, events, post)

    def open_reader(self, deliver: Callable[[ReadRecords], None], post: Post) -> TopicReader:
        """Returns the thread that reads the topic, which is not started."""
        return TopicReader(self.target, deliver, post)

    async def close(self, *threads: Any) -> None:
        """Stops the threads."""
        await asyncio.gather(*(asyncio.to_thread(thread.stop) for thread in threads))
