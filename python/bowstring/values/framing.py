"""Implements Confluent's wire format: a zero byte, the schema's id in four bytes, for Protobuf also the
message's indexes.
"""

from __future__ import annotations

import struct


def prefix(schema_id: int, message_indexes: tuple[int, ...] | None = None) -> bytes:
    """Returns the bytes at the start of every value.

    Args:
        message_indexes: of a Protobuf message: its index in the file, then in the enclosing message ...
    """
    return struct.pack(">bI", 0, schema_id) + indexes_bytes(message_indexes)


def indexes_bytes(message_indexes: tuple[int, ...] | None) -> bytes:
    """Returns the indexes of a Protobuf message as they follow a schema's id; empty for None."""
    if message_indexes is None:
        return b""
    if message_indexes == (0,):
        return b"\0"
    return b"".join(_varint(number) for number in (len(message_indexes), *message_indexes))


def _varint(value: int) -> bytes:
    """Encodes a zig-zag varint, like Kafka's ByteUtils."""
    rest, out = value << 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
