"""Encodes Fetch requests straight to bytes; one is sent for every answer, so message objects are too slow."""

from __future__ import annotations

from typing import NamedTuple

from bowstring._native.client.fetch_codec import fetch_frame
from bowstring.clients.consumer.fetch_config import FetchConfig
from bowstring.clients.net.frames import FramedRequest


class AskedTopic(NamedTuple):
    """Partitions of one topic in a request: (partition, fetch offset, leader epoch) of each."""

    topic_id: bytes
    partitions: list[tuple[int, int, int]]


class ForgottenTopic(NamedTuple):
    """Partitions of one topic that a session must forget."""

    topic_id: bytes
    partitions: list[int]


class FetchFrame(FramedRequest):
    """A consumer's FetchRequest. The layout equals the declared one (tests compare them).

    Args:
        named, forgotten: by topic name.
        max_wait_ms: how long the broker waits for min_bytes; None: the value of the config.
    """

    def __init__(
        self,
        config: FetchConfig,
        session_id: int,
        session_epoch: int,
        named: dict[str, AskedTopic],
        forgotten: dict[str, ForgottenTopic],
        *,
        max_wait_ms: int | None = None,
    ):
        self.config = config
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.named = named
        self.forgotten = forgotten
        self.max_wait_ms = config.max_wait_ms if max_wait_ms is None else max_wait_ms

    def buffers(self, version: int, correlation_id: int, client_id: str) -> list[memoryview]:
        """Returns the frame with its length in front."""
        config = self.config
        frame = fetch_frame(
            version,
            correlation_id,
            client_id.encode(),
            max_wait_ms=self.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            read_committed=config.read_committed,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            partition_max_bytes=config.partition_max_bytes,
            named=self.named,
            forgotten=self.forgotten,
            rack=config.rack.encode(),
        )
        return [memoryview(frame)]
