"""Encodes the coordinator's records: keys and values of ``__consumer_offsets``.

A key starts with two bytes for its record type, a value with two bytes for its version; bowstring.protocol
declares the bodies.
"""

from bowstring._native.protocol.message_codec import encode
from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset
from bowstring.protocol.records.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from bowstring.protocol.records.offsets import OffsetCommitKey, OffsetCommitValue
from bowstring.protocol.schema import Message

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

# Versions that Kafka 4.4 writes: 4 has the topic id, only 1 has an expiry; group metadata stays readable by
# Kafka 2.3.
OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_EXPIRY_VERSION = 1
GROUP_METADATA_VALUE_VERSION = 3


def encode_key(record_type: int, key: Message) -> bytes:
    """Encodes a key of the group log."""
    return record_type.to_bytes(2, "big") + encode(key, 0)


def encode_value(version: int, value: Message) -> bytes:
    """Encodes a value of the group log."""
    return version.to_bytes(2, "big") + encode(value, version)


def offset_commit(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> Record:
    """Encodes a committed offset, without the record's own offset in the log."""
    expires = offset.expire_timestamp_ms != NO_EXPIRY
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp_ms,
        expire_timestamp=offset.expire_timestamp_ms,
        topic_id=offset.topic_id,
    )
    version = OFFSET_COMMIT_EXPIRY_VERSION if expires else OFFSET_COMMIT_VALUE_VERSION
    return offset_tombstone(group_id, topic, partition)[0], encode_value(version, value)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Encodes the deletion of a committed offset."""
    return encode_key(OFFSET_COMMIT, OffsetCommitKey(group=group_id, topic=topic, partition=partition)), None


def group_metadata(group: ClassicGroup, assignments: dict[str, bytes], *, rebalances: bool = False) -> Record:
    """Encodes the group's present generation with the given assignment by member id.

    Args:
        rebalances: The group is about to rebalance, also after a restart. Then the record has no leader.
    """
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name or ""),
            assignment=assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=None if rebalances else group.leader_id,
        current_state_timestamp=_timestamp(group),
        members=members,
    )
    return group_tombstone(group.group_id)[0], encode_value(GROUP_METADATA_VALUE_VERSION, value)


def empty_group(group: ClassicGroup) -> Record:
    """Encodes a new group without a generation."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=_timestamp(group))
    return group_tombstone(group.group_id)[0], encode_value(GROUP_METADATA_VALUE_VERSION, value)


def group_tombstone(group_id: str) -> Record:
    """Encodes the deletion of a group."""
    return encode_key(GROUP_METADATA, GroupMetadataKey(group=group_id)), None


def _timestamp(group: ClassicGroup) -> int:
    return -1 if group.state_timestamp_ms is None else group.state_timestamp_ms
