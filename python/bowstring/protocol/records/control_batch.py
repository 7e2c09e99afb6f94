"""Encodes and decodes keys of control records and values of transaction markers (KIP-98, KIP-595)."""

from __future__ import annotations

from enum import IntEnum

from bowstring._native.protocol.message_codec import ProtocolError, decode, encode
from bowstring.protocol.records.control import ControlRecordTypeSchema, EndTxnMarker

Buffer = bytes | bytearray | memoryview

_VERSION = 0
_PREFIX = _VERSION.to_bytes(2, "big")


class ControlRecordType(IntEnum):
    """Type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def encode_control_key(record_type: ControlRecordType) -> bytes:
    """Encodes the key of a control record: version, then type."""
    return _PREFIX + encode(ControlRecordTypeSchema(type=int(record_type)), _VERSION)


def decode_control_key(data: Buffer) -> ControlRecordType | None:
    """Decodes the type of a control record; None for an unknown one. Bytes after the type belong to later
    versions.

    Raises:
        ProtocolError: the key is shorter than version and type.
    """
    if len(data) < 4:
        raise ProtocolError("control record key", 0, "", 0, f"has 4 bytes, {len(data)} are left")
    value = int.from_bytes(data[2:4], "big", signed=True)
    return ControlRecordType(value) if value in ControlRecordType.__members__.values() else None


def encode_end_txn_marker(coordinator_epoch: int) -> bytes:
    """Encodes the value of a commit or abort marker: version, then the epoch of the transaction
    coordinator.
    """
    return _PREFIX + encode(EndTxnMarker(coordinator_epoch=coordinator_epoch), _VERSION)


def decode_end_txn_marker(data: Buffer) -> int:
    """Decodes the coordinator epoch of a commit or abort marker. Later versions may add bytes at the end.

    Raises:
        ProtocolError: the value is shorter than version and epoch.
    """
    if len(data) < 6:
        raise ProtocolError("EndTxnMarker", 0, "", 0, f"has 6 bytes, {len(data)} are left")
    return decode(EndTxnMarker, _VERSION, bytes(data[2:6])).coordinator_epoch
