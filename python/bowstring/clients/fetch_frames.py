"""Fetch requests as they are sent: one for every answer, so they are written without the declared objects."""

from __future__ import annotations

from typing import NamedTuple

from bowstring._native.fetch_question import fetch_frame
from bowstring.clients.fetch_config import FetchConfig
from bowstring.clients.wire import FramedRequest


class AskedTopic(NamedTuple):
    """Partitions of one topic, in a request: (partition, fetch offset, leader epoch) of each."""

    topic_id: bytes
    partitions: list[tuple[int, int, int]]


class ForgottenTopic(NamedTuple):
    """Partitions of one topic that a session shall forget."""

    topic_id: bytes
    partitions: list[int]


class FetchFrame(FramedRequest):
    """A consumer's FetchRequest; the layout is the declared one (tests compare).

    Args:
        named, forgotten: by topic name.
    """

    def __init__(
        self,
        config: FetchConfig,
        session_id: int,
        session_epoch: int,
        named: dict[str, AskedTopic],
        forgotten: dict[str, ForgottenTopic],
    ):
        self.config = config
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.named = named
        self.forgotten = forgotten

    def buffers(self, version: int, correlation_id: int, client_id: str) -> list[memoryview]:
        """The frame, its length in front."""
        config = self.config
        frame = fetch_frame(
            version,
            correlation_id,
            client_id.encode(),
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            read_committed=config.read_committed,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            partition_max_bytes=config.partition_max_bytes,
            named=self.named,
            forgotten=self.forgotten,
        )
        return [memoryview(frame)]
