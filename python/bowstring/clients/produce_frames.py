"""Produce requests as they are sent: small pieces of framing between batches that are not copied."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
        head += _count(len(self.topics), flexible)
        pieces: list[bytes | memoryview] = []
        for topic in self.topics:
            head += topic.topic_id if version >= TOPIC_ID_VERSION else _text(topic.name, flexible)
            head += _count(len(topic.partitions), flexible)
            for index, data in topic.partitions:
                head += struct.pack(">i", index) + _count(len(data), flexible)
                pieces += (head, data)
                head = tags
            head += tags
        pieces.append(head + tags)
        pieces[0] = struct.pack(">i", sum(map(len, pieces))) + bytes(pieces[0])
        return [memoryview(piece) for piece in _not_empty(pieces)]


def _not_empty(pieces: Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
    return (piece for piece in pieces if len(piece))


def _count(number: int, flexible: bool) -> bytes:
    """A length or count, of versions that have them as varints, or as int32."""
    if not flexible:
        return struct.pack(">i", number)
    number += 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(text: str, flexible: bool) -> bytes:
    data = text.encode()
    return (_count(len(data), True) if flexible else struct.pack(">h", len(data))) + data
