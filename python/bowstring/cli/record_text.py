"""Converts records of Kafka's own topics to JSON, with the names of Kafka's DumpLogSegments."""

from __future__ import annotations

import base64
import json
from typing import Any

from bowstring._native.protocol.message_codec import ProtocolError, decode, decode_prefix
from bowstring._native.record.types import Record
from bowstring.protocol.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecords,
)
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from bowstring.protocol.records.control import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from bowstring.protocol.schema import UUID, Message, Struct, fields_of

COORDINATOR_TOPICS = {
    "offsets": CONSUMER_OFFSETS,
    "transaction-log": TRANSACTION_STATE,
    "share-group-state": SHARE_GROUP_STATE,
}

# Control records by the type in their key: the name in DumpLogSegments, and the value's class.
_CONTROL_TYPES: dict[int, tuple[str, type[Message]]] = {
    2: ("LeaderChange", LeaderChangeMessage),
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
    5: ("KRaftVersion", KRaftVersionRecord),
    6: ("KRaftVoters", VotersRecord),
}
_END_TYPES = {0: "ABORT", 1: "COMMIT"}
_UNSIGNED_VARINT_FRAME = 1
_REDACTED = "(redacted)"
# Ends of the names of configs whose values are secret.
_SECRET_CONFIGS = (".password", ".passphrase", ".secret", ".key", ".jaas.config")


def camel(name: str) -> str:
    """Returns a field's name in Kafka's JSON."""
    head, *rest = name.split("_")
    return head.replace("kraft", "kRaft") + "".join(word.capitalize() for word in rest)


def as_json(value: Any, version: int) -> Any:
    """Returns a declared message as plain values; ids and bytes are in base64, as in Kafka."""
    if isinstance(value, Struct):
        return {
            camel(field.name): _field_json(getattr(value, field.name), field.kind, version)
            for field in fields_of(type(value))
            if field.versions[0] <= version <= field.versions[1]
            # Like Kafka, leaves out tagged fields with their default value.
            and (field.tag < 0 or getattr(value, field.name) != getattr(type(value)(), field.name))
        }
    return _field_json(value, -1, version)


def _field_json(value: Any, kind: int, version: int) -> Any:
    if isinstance(value, bytes):
        if kind == UUID or (len(value) == 16 and kind < 0):
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [as_json(item, version) for item in value]
    return as_json(value, version) if isinstance(value, Struct) else value


def control_text(record: Record) -> str:
    """Returns the text of a control record."""
    key, value = record.key or b"", record.value or b""
    kind = int.from_bytes(key[2:4], "big", signed=True) if len(key) >= 4 else -1
    version = int.from_bytes(value[:2], "big", signed=True) if len(value) >= 2 else 0
    try:
        if kind in _END_TYPES:
            marker = decode(EndTxnMarker, 0, value, 2)
            return f"endTxnMarker: {_END_TYPES[kind]} coordinatorEpoch: {marker.coordinator_epoch}"
        if kind in _CONTROL_TYPES:
            name, cls = _CONTROL_TYPES[kind]
            message, _ = decode_prefix(cls, version, value, 0)
            colon = ":" if name == "LeaderChange" else ""
            return f"{name}{colon} {compact(as_json(message, version))}"
    except ProtocolError as error:
        return f"controlType: {kind} (cannot be decoded: {error})"
    return f"controlType: UNKNOWN({kind})"


def coordinator_record(topic: CoordinatorRecords, record: Record) -> tuple[str, str]:
    """Returns key and value of a record of __consumer_offsets and similar topics.

    Raises:
        ProtocolError: they do not match the record's type.
    """
    key, value = record.key or b"", record.value
    record_type = int.from_bytes(key[:2], "big", signed=True)
    if len(key) < 2 or record_type not in topic:
        return f"UNKNOWN({record_type})", "UNKNOWN" if value is not None else "<DELETE>"
    key_class, value_class = topic[record_type]
    key_json = {"type": str(record_type), "data": as_json(decode(key_class, 0, key, 2), 0)}
    if value is None:
        return compact(key_json), "<DELETE>"
    version = int.from_bytes(value[:2], "big", signed=True)
    message = decode(value_class, version, value, 2)
    data = as_json(message, version)
    if getattr(message, "protocol_type", None) == "consumer":
        _open_members(data["members"])
    return compact(key_json), compact({"version": str(version), "data": data})


def _open_members(members: list[dict[str, Any]]) -> None:
    """Decodes what classic consumers put into their group's metadata, which the coordinator does not
    decode.
    """
    for member in members:
        for name, cls in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            inside = base64.b64decode(member[name])
            version = int.from_bytes(inside[:2], "big", signed=True)
            message, _ = decode_prefix(cls, version, inside, 2)
            member[name] = as_json(message, version)


def metadata_record(record: Record) -> str:
    """Decodes a record of __cluster_metadata: frame version, type and version as unsigned varints, then its
    fields.

    Raises:
        ProtocolError: the record does not match its frame.
    """
    data = record.value or b""
    numbers, at = [], 0
    for _ in range(3):
        number, shift = 0, 0
        while at < len(data):
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(number)
    frame, kind, version = numbers
    if frame != _UNSIGNED_VARINT_FRAME or kind not in CLUSTER_METADATA:
        return f"Could not parse: frame version {frame}, record type {kind}"
    cls = CLUSTER_METADATA[kind]
    message = decode(cls, version, data, at)
    words = "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(cls.__name__)).upper()
    fields = as_json(message, version)
    for name in _secrets_of(cls, fields):
        fields[name] = _REDACTED
    return compact({"type": words, "version": version, "data": fields})


def _secrets_of(cls: type[Any], fields: dict[str, Any]) -> tuple[str, ...]:
    """Returns the fields of a metadata record that are not shown: passwords, and what SCRAM keeps of them.
    The value of a config is shown unless its name is that of a secret.
    """
    if cls is ConfigRecord and not (fields["name"].endswith(_SECRET_CONFIGS) and fields["value"]):
        return ()
    return tuple(camel(each.name) for each in fields_of(cls) if each.secret)


def compact(value: Any) -> str:
    """Returns JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
