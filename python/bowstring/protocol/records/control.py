"""Declares control records: transaction markers and those of the metadata quorum."""

from __future__ import annotations

from bowstring.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)


class ControlRecordTypeSchema(Message, versions="0"):
    type: int = int16("0+")


class EndTxnMarker(Message, versions="0"):
    coordinator_epoch: int = int32("0+")


class LeaderChangeMessageVoter(Struct):
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("1+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: int = int16("0+")
    leader_id: int = int32("0+")
    voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter, "0+")
    granting_voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter, "0+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    last_contained_log_timestamp: int = int64("0+")


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    kraft_version: int = int16("0+")


class Endpoint(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class VotersRecordVoter(Struct):
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")
    endpoints: list[Endpoint] = array(Endpoint, "0+")
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+")


class VotersRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    voters: list[VotersRecordVoter] = array(VotersRecordVoter, "0+")
