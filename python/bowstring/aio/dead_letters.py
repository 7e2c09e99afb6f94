"""Sends a consumer's dead letters by a producer of the same event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from bowstring.aio.producer import Producer
from bowstring.aio.worker import Worker


class DeadLetters:
    """A DeadLetter whose producer belongs to the loop; the consumer's thread waits for its futures.

    Args:
        letters: the `bowstring.DeadLetter`.

    Attributes:
        worker: the consumer's, set before the first record is sent.
    """

    worker: Worker

    def __init__(self, letters: Any):
        self.topic: str = letters.topic
        self._letters = letters

    def send_record(self, record: Any, reason: str) -> Future[Any]:
        """Sends one record on the loop, and returns a future for the consumer's thread."""

        async def send() -> Any:
            return await self._letters.send_record(record, reason)

        assert self.worker.loop is not None
        return asyncio.run_coroutine_threadsafe(send(), self.worker.loop)


def sent_on_loop(settings: dict[str, Any]) -> DeadLetters | None:
    """Replaces `on_undecodable` in a consumer's settings by what works in its thread, if it is a DeadLetter
    with a producer of the loop; returns that.
    """
    policy = settings.get("on_undecodable")
    if not isinstance(getattr(policy, "producer", None), Producer):
        return None
    settings["on_undecodable"] = found = DeadLetters(policy)
    return found
