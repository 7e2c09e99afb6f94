"""Produce requests as they are sent: small pieces of framing between batches that are not copied."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from bowstring._native.client.produce_requests import interleave
from bowstring.clients.net.frames import FramedRequest
from bowstring.protocol.messages.produce import ProduceRequest

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

    def __init__(
        self,
        acks: int,
        timeout_ms: int,
        topics: Sequence[TopicBatches],
        transactional_id: str | None = None,
    ):
        self.acks = acks
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.topics = topics

    def buffers(self, version: int, correlation_id: int, client_id: str) -> list[memoryview]:
        """The frame, its length in front, as buffers to be sent one after the other."""
        head = request_head(version, client_id, self.acks, self.timeout_ms, self.transactional_id)
        topics = [
            (topic_head(topic.name, topic.topic_id, version), topic.partitions) for topic in self.topics
        ]
        return interleave(head, correlation_id, topics, version)


def request_head(
    version: int, client_id: str, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> bytes:
    """A request up to its topics, without its length; its correlation id is left to be filled in."""
    flexible = version >= FLEXIBLE_VERSION
    name = client_id.encode()
    head = struct.pack(">hhih", ProduceRequest.api_key, version, 0, len(name)) + name
    head += b"\0" if flexible else b""  # no tags
    return head + _nullable(transactional_id, flexible) + struct.pack(">hi", acks, timeout_ms)


def _nullable(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    if not flexible:
        return struct.pack(">h", len(data)) + data
    size, length = len(data) + 1, bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*length, size]) + data


def topic_head(name: str, topic_id: bytes, version: int) -> bytes:
    """A topic in a request, up to its partitions."""
    if version >= TOPIC_ID_VERSION:
        return topic_id
    data = name.encode()
    if version < FLEXIBLE_VERSION:
        return struct.pack(">h", len(data)) + data
    # A topic's name has at most 249 bytes, so that its length fits into two of the varint's.
    size = len(data) + 1
    return (bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])) + data
