"""Creates logs for which there were no descriptors, no memory or no space when their topic was created."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background, event_log
from bowstring.engine.metadata.image import Metadata, TopicImage
from bowstring.engine.storage.log_healer import RETRY_FIRST_S, next_pause_s

if TYPE_CHECKING:
    from bowstring.engine.storage.log_manager import LogManager


class MissingLogs:
    """Topics of the metadata log some of whose partitions have no log. Used on the control loop.

    Attributes:
        when_opened: Called with a topic all of whose partitions have a log now.
    """

    def __init__(self, metadata: Metadata, logs: "LogManager") -> None:
        self._metadata = metadata
        self._logs = logs
        self.when_opened: Callable[[TopicImage], None] = lambda topic: None
        self._topics: dict[bytes, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, topic_id: bytes, name: str, error: Exception) -> None:
        """Has the partitions of a topic created later; logs the first of a series of topics."""
        self._topics[topic_id] = None
        if self._task is None:
            event_log.error(
                "the partitions of a new topic could not be created; this is tried again until it works. Fix "
                "the cause in detail",
                topic=name,
                detail=str(error),
            )
            self._task = background.spawn(self._create(), "creating missing partitions")
            self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stops creating logs: the next start does it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None

    async def _create(self) -> None:
        pause_s = RETRY_FIRST_S
        while self._topics:
            await asyncio.sleep(pause_s)
            pause_s = next_pause_s(pause_s)
            async with self._metadata.changing() as change:
                image = change.image
                for topic_id in list(self._topics):
                    topic = image.topics_by_id.get(topic_id)
                    try:
                        if topic is not None:
                            await self._logs.open_new(image, [topic])
                    except (OSError, LogError):
                        break
                    del self._topics[topic_id]
                    if topic is not None:
                        self.when_opened(topic)
        event_log.info("the partitions of all topics are created")
