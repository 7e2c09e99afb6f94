"""Confluent's wire format: a zero byte, the schema's id in four bytes, for Protobuf also the message."""

from __future__ import annotations

import struct


def prefix(schema_id: int, message_indexes: tuple[int, ...] | None = None) -> bytes:
    """What every value begins with.

    Args:
        message_indexes: of a Protobuf message: its place in the file, then in the message around it ...
    """
    head = struct.pack(">bI", 0, schema_id)
    if message_indexes is None:
        return head
    if message_indexes == (0,):
        return head + b"\0"
    return head + b"".join(_varint(number) for number in (len(message_indexes), *message_indexes))


def _varint(value: int) -> bytes:
    """A zig-zag varint, as Kafka's ByteUtils writes it."""
    rest, out = value << 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
