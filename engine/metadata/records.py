"""Metadata records as bytes, in the versions that the finalized metadata.version writes."""

from typing import Final

from bowstring.engine.protocol.records.cluster_metadata.topics import PartitionChangeRecord, PartitionRecord
from bowstring.engine.protocol.records.metadata_frame import decode_metadata_record, encode_metadata_record
from bowstring.engine.protocol.schema import MetadataRecord, versions_of

# The newest version is right for every record but these: their version 2 belongs to eligible leader replicas
# (KIP-966), a feature that is not finalized here.
_WRITTEN_VERSIONS: Final = {PartitionRecord.api_key: 1, PartitionChangeRecord.api_key: 1}


def encode_record(record: MetadataRecord) -> bytes:
    """The value of a record of __cluster_metadata."""
    version = _WRITTEN_VERSIONS.get(record.api_key)
    return encode_metadata_record(record, versions_of(type(record))[1] if version is None else version)


def decode_record(value: bytes) -> MetadataRecord:
    """The record in a value of __cluster_metadata.

    Raises:
        ProtocolError: A kind or version that is not known, or bytes that are no such record.
    """
    return decode_metadata_record(value).record
