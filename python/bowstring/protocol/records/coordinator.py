"""Encodes and decodes records of the coordinators' topics: two bytes of prefix, then the message.

The prefix of a key is its record type, that of a value its version. A record without a value is a tombstone
for its key.
"""

from __future__ import annotations

from bowstring._native.protocol.message_codec import ProtocolError, decode, encode
from bowstring.protocol.records import CoordinatorRecords
from bowstring.protocol.schema import CoordinatorKey, CoordinatorValue

Buffer = bytes | bytearray | memoryview

_KEY_VERSION = 0


def encode_key(key: CoordinatorKey) -> bytes:
    """Encodes the record type, then the key.

    Raises:
        ProtocolError: a field does not fit.
    """
    return key.record_type.to_bytes(2, "big") + encode(key, _KEY_VERSION)


def encode_value(value: CoordinatorValue, version: int) -> bytes:
    """Encodes the version, then the value in that version.

    Raises:
        ProtocolError: the version is not declared, or a field does not fit it.
    """
    body = encode(value, version)
    return version.to_bytes(2, "big") + body


def decode_key(records: CoordinatorRecords, data: Buffer) -> CoordinatorKey | None:
    """Decodes the key of a record; None for an unknown type, which a newer coordinator may have written.

    Raises:
        ProtocolError: the bytes are not a key of that type.
    """
    record_type = _prefix(data, f"key in {records.topic}")
    if record_type not in records:
        return None
    return decode(records[record_type][0], _KEY_VERSION, data, 2)


def decode_value(declared: type[CoordinatorValue], data: Buffer) -> CoordinatorValue:
    """Decodes the value of a record whose key says that it is a `declared`.

    Raises:
        ProtocolError: the version is not declared, or the bytes are malformed.
    """
    return decode(declared, _prefix(data, declared.__name__), data, 2)


def decode_record(
    records: CoordinatorRecords, key: Buffer, value: Buffer | None
) -> tuple[CoordinatorKey, CoordinatorValue | None] | None:
    """Decodes key and value of a record. The value of a tombstone is None. Returns None for an unknown record
    type.

    Raises:
        ProtocolError: key or value is malformed.
    """
    decoded = decode_key(records, key)
    if decoded is None:
        return None
    if value is None:
        return decoded, None
    return decoded, decode_value(records[decoded.record_type][1], value)


def _prefix(data: Buffer, what: str) -> int:
    if len(data) < 2:
        raise ProtocolError(what, 0, "", 0, f"begins with two bytes of prefix, {len(data)} are left")
    return int.from_bytes(data[:2], "big", signed=True)
