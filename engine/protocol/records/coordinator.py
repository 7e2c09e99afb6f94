"""Records of the coordinators' topics, as bytes: two bytes of prefix, then the message.

A key's prefix is its record type, a value's prefix its own version. A record without a value deletes what
its key names.
"""

from __future__ import annotations

from bowstring._native.codec import ProtocolError, decode, encode
from bowstring.engine.protocol.records import CoordinatorRecords
from bowstring.engine.protocol.schema import CoordinatorKey, CoordinatorValue

Buffer = bytes | bytearray | memoryview

_KEY_VERSION = 0


def encode_key(key: CoordinatorKey) -> bytes:
    """Record type, then the key.

    Raises:
        ProtocolError: a field does not fit.
    """
    return key.record_type.to_bytes(2, "big") + encode(key, _KEY_VERSION)


def encode_value(value: CoordinatorValue, version: int) -> bytes:
    """Version, then the value in that version.

    Raises:
        ProtocolError: the version is not declared, or a field does not fit it.
    """
    body = encode(value, version)
    return version.to_bytes(2, "big") + body


def decode_key(records: CoordinatorRecords, data: Buffer) -> CoordinatorKey | None:
    """The key of a record; None when its type is not known, which a newer coordinator may have written.

    Raises:
        ProtocolError: the bytes are no key of that type.
    """
    record_type = _prefix(data, f"key in {records.topic}")
    if record_type not in records:
        return None
    return decode(records[record_type][0], _KEY_VERSION, data, 2)


def decode_value(declared: type[CoordinatorValue], data: Buffer) -> CoordinatorValue:
    """The value of a record whose key said that it is `declared`.

    Raises:
        ProtocolError: the version is not declared, or the bytes are no such value.
    """
    return decode(declared, _prefix(data, declared.__name__), data, 2)


def decode_record(
    records: CoordinatorRecords, key: Buffer, value: Buffer | None
) -> tuple[CoordinatorKey, CoordinatorValue | None] | None:
    """Key and value of a record, the value None in a tombstone; None for a record type not known.

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
