"""Encodes and decodes metadata records in the versions that the finalized metadata.version requires."""

from copy import copy
from functools import cache
from typing import Final

from bowstring.protocol.features import HIGHEST_METADATA_VERSION
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from bowstring.protocol.records.cluster_metadata.topics import PartitionChangeRecord, PartitionRecord
from bowstring.protocol.records.metadata_frame import decode_metadata_record, encode_metadata_record
from bowstring.protocol.schema import MetadataRecord

# By record type, the metadata.version that each record version needs, newest first. Directories came with 17
# (KIP-858), eligible leader replicas with 23 (KIP-966), cordoned directories with 30. Other records have one
# version.
_VERSIONS_SINCE: Final[dict[int, tuple[tuple[int, int], ...]]] = {
    PartitionRecord.api_key: ((23, 2), (17, 1), (0, 0)),
    PartitionChangeRecord.api_key: ((23, 2), (17, 1), (0, 0)),
    RegisterBrokerRecord.api_key: ((30, 4), (17, 3), (8, 2), (0, 1)),
    BrokerRegistrationChangeRecord.api_key: ((30, 3), (17, 2), (0, 1)),
}

# Fields introduced by a later metadata.version, and their value before it, for clusters below that level.
_FIELDS_SINCE: Final[dict[int, tuple[tuple[int, str, tuple[()] | None], ...]]] = {
    PartitionRecord.api_key: (
        (17, "directories", ()),
        (23, "eligible_leader_replicas", None),
        (23, "last_known_elr", None),
    ),
    PartitionChangeRecord.api_key: (
        (17, "directories", None),
        (23, "eligible_leader_replicas", None),
        (23, "last_known_elr", None),
    ),
    RegisterBrokerRecord.api_key: ((17, "log_dirs", ()), (30, "cordoned_log_dirs", None)),
    BrokerRegistrationChangeRecord.api_key: ((17, "log_dirs", ()), (30, "cordoned_log_dirs", None)),
}


def encode_record(record: MetadataRecord, metadata_version: int = HIGHEST_METADATA_VERSION) -> bytes:
    """Returns the value of a record of __cluster_metadata, as a cluster at `metadata_version` writes it."""
    version, unknown = _form(record.api_key, metadata_version)
    left_out: list[tuple[str, list[object] | None]] = [
        (name, None if empty is None else list(empty)) for name, empty in unknown if getattr(record, name)
    ]
    if left_out:
        record = copy(record)
        for name, empty_value in left_out:
            setattr(record, name, empty_value)
    return encode_metadata_record(record, version)


@cache
def _form(api_key: int, metadata_version: int) -> tuple[int, tuple[tuple[str, tuple[()] | None], ...]]:
    """Returns the version of a record, and the fields that clusters at this level do not have."""
    since = _VERSIONS_SINCE.get(api_key, ((0, 0),))
    version = next(version for level, version in since if metadata_version >= level)
    unknown = tuple(
        (name, empty) for level, name, empty in _FIELDS_SINCE.get(api_key, ()) if metadata_version < level
    )
    return version, unknown


def decode_record(value: bytes) -> MetadataRecord:
    """Returns the record in a value of __cluster_metadata.

    Raises:
        ProtocolError: An unknown kind or version, or malformed bytes.
    """
    return decode_metadata_record(value).record
