"""Encodes and decodes records of __cluster_metadata: a frame of three unsigned varints, then the record
(KIP-631).

The varints are the frame's own version, the record's key and the record's version.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from bowstring._native.protocol.message_codec import ProtocolError, decode, encode
from bowstring.protocol.records import CLUSTER_METADATA
from bowstring.protocol.schema import MetadataRecord

Buffer = bytes | bytearray | memoryview

FRAME_VERSION = 1
_MAX_VARINT_BYTES = 3
"""Enough for the 15 bits of keys and versions."""


class FramedRecord(NamedTuple):
    """A record and the version it was written in."""

    record: MetadataRecord
    version: int


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """Encodes frame and record.

    Raises:
        ProtocolError: the version is not declared, or a field does not fit it.
    """
    return _frame(record.api_key, version) + encode(record, version)


@cache
def _frame(key: int, version: int) -> bytes:
    return _varint(FRAME_VERSION) + _varint(key) + _varint(version)


def decode_metadata_record(data: Buffer) -> FramedRecord:
    """Decodes the record in a frame.

    Raises:
        ProtocolError: unknown frame version, record or record version, or malformed bytes.
    """
    if len(data) >= 3 and data[0] == FRAME_VERSION and data[1] <= 0x7F and data[2] <= 0x7F:
        key, version = data[1], data[2]  # all records so far: a start decodes many of them
        if key in CLUSTER_METADATA:
            return FramedRecord(decode(CLUSTER_METADATA[key], version, data, 3), version)
    frame_version, at = _read_varint(data, 0, "frame_version")
    if frame_version != FRAME_VERSION:
        raise _trouble("frame_version", 0, f"is {frame_version}, but only {FRAME_VERSION} is supported")
    key, end = _read_varint(data, at, "api_key")
    if key not in CLUSTER_METADATA:
        raise _trouble("api_key", at, f"{key} is not a record of this version of Kafka")
    version, at = _read_varint(data, end, "api_version")
    return FramedRecord(decode(CLUSTER_METADATA[key], version, data, at), version)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: Buffer, at: int, field: str) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(data):
            raise _trouble(field, at, "the frame ends here")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _trouble(field, at, f"is a varint of more than {_MAX_VARINT_BYTES} bytes")


def _trouble(field: str, offset: int, reason: str) -> ProtocolError:
    return ProtocolError("metadata record frame", FRAME_VERSION, field, offset, reason)
