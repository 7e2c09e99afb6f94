"""Produce requests as they are sent: small pieces of framing between batches that are not copied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from bowstring._native.produce_rounds import interleave
from bowstring.clients.wire import FramedRequest
from bowstring.engine.protocol.messages.produce import ProduceRequest

# Versions from which lengths are varints (KIP-482), and topics go by their ids (KIP-516).
FLEXIBLE_VERSION = 9
TOPIC_ID_VERSION = 13


class TopicBatches(NamedTuple):
    """Batches for partitions of one topic, in a request."""

    name: str
    topic_id: bytes
    partitions: list[tuple[int, memoryview]]


class ProduceFrame(FramedRequest):
    """A ProduceRequest, written around its batches; the layout is the declared one (tests compare)."""

    def __init__(self, acks: int, timeout_ms: int, topics: Sequence[TopicBatches]):
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics

    def buffers(self, version: int, correlation_id: int, client_id: str) -> list[memoryview]:
        """The frame, its length in front, as buffers to be sent one after the other."""
        flexible = version >= FLEXIBLE_VERSION
        tags = b"\0" if flexible else b""
        name = client_id.encode()
        head = struct.pack(">hhih", ProduceRequest.api_key, version, correlation_id, len(name)) + name + tags
        head += (b"\0" if flexible else b"\xff\xff") + struct.pack(">hi", self.acks, self.timeout_ms)
        topics = [
            (topic.topic_id if version >= TOPIC_ID_VERSION else _text(topic.name, flexible), topic.partitions)
            for topic in self.topics
        ]
        return interleave(head, topics, version)

    def head(self, version: int, client_id: str) -> bytes:
        """The frame up to the size of its only batch, which is empty; its length and id are of no use."""
        whole = b"".join(self.buffers(version, 0, client_id))
        # Behind it: a size of four bytes, or one of a byte and the tags of partition, topic and request.
        return whole[:-4]


def _text(text: str, flexible: bool) -> bytes:
    data = text.encode()
    if not flexible:
        return struct.pack(">h", len(data)) + data
    # A topic's name has at most 249 bytes, so that its length fits into two of the varint's.
    size = len(data) + 1
    return (bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])) + data
