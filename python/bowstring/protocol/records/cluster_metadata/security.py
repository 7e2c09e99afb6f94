"""Declares the records of access control, SCRAM credentials and delegation tokens in __cluster_metadata."""

from __future__ import annotations

from bowstring.protocol.schema import MetadataRecord, array, binary, int8, int32, int64, string, uuid


class AccessControlEntryRecord(MetadataRecord, key=18, versions="0", flexible="0+"):
    id: bytes = uuid("0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("0+")
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class RemoveAccessControlEntryRecord(MetadataRecord, key=19, versions="0", flexible="0+"):
    id: bytes = uuid("0+")


class UserScramCredentialRecord(MetadataRecord, key=11, versions="0", flexible="0+"):
    name: str = string("0+")
    mechanism: int = int8("0+")
    salt: bytes = binary("0+", secret=True)
    stored_key: bytes = binary("0+", secret=True)
    server_key: bytes = binary("0+", secret=True)
    iterations: int = int32("0+")


class RemoveUserScramCredentialRecord(MetadataRecord, key=22, versions="0", flexible="0+"):
    name: str = string("0+")
    mechanism: int = int8("0+")


class DelegationTokenRecord(MetadataRecord, key=10, versions="0", flexible="0+"):
    owner: str = string("0+")
    requester: str = string("0+")
    renewers: list[str] = array(string, "0+")
    issue_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    expiration_timestamp: int = int64("0+")
    token_id: str = string("0+")


class RemoveDelegationTokenRecord(MetadataRecord, key=26, versions="0", flexible="0+"):
    token_id: str = string("0+")
