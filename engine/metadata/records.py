"""Metadata records as they stand in __cluster_metadata: frame version, kind, version, then the fields."""

from typing import Final

from bowstring._native.codec import ProtocolError, decode, encode
from bowstring.engine.protocol.records.cluster_metadata import markers, nodes, security, settings, topics
from bowstring.engine.protocol.schema import MetadataRecord, versions_of

FRAME_VERSION: Final = 1

_RECORD_TYPES: Final[dict[int, type[MetadataRecord]]] = {
    declared.api_key: declared
    for module in (topics, settings, nodes, markers, security)
    for declared in vars(module).values()
    if isinstance(declared, type) and issubclass(declared, MetadataRecord) and declared is not MetadataRecord
}

# The newest version is right for every record but this: version 2 belongs to eligible leader replicas
# (KIP-966), a feature that is not finalized here.
_WRITTEN_VERSIONS: Final = {topics.PartitionRecord.api_key: 1, topics.PartitionChangeRecord.api_key: 1}


def encode_record(record: MetadataRecord) -> bytes:
    """The value of a record of __cluster_metadata."""
    kind = record.api_key
    version = _WRITTEN_VERSIONS.get(kind)
    if version is None:
        version = versions_of(type(record))[1]
    # All three are unsigned varints below 128: one byte each.
    return bytes((FRAME_VERSION, kind, version)) + encode(record, version)


def decode_record(value: bytes) -> MetadataRecord:
    """The record in a value of __cluster_metadata.

    Raises:
        ProtocolError: A kind or version that is not known, or bytes that are no such record.
    """
    if len(value) < 3 or value[0] != FRAME_VERSION:
        raise ProtocolError(
            "MetadataRecord", 0, "frame_version", 0, f"expected frame version {FRAME_VERSION}"
        )
    kind, version = value[1], value[2]
    declared = _RECORD_TYPES.get(kind)
    if declared is None:
        raise ProtocolError("MetadataRecord", version, "api_key", 1, f"record type {kind} is not known")
    return decode(declared, version, value, 3)
