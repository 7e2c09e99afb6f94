"""Declares the records of share groups in __consumer_offsets (KIP-932)."""

from __future__ import annotations

from bowstring.protocol.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Struct,
    array,
    int8,
    int32,
    int64,
    string,
    uuid,
)


class ShareGroupMetadataKey(CoordinatorKey, record_type=11, versions="0"):
    group_id: str = string("0")


class ShareGroupMetadataValue(CoordinatorValue, record_type=11, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


class ShareGroupMemberMetadataKey(CoordinatorKey, record_type=10, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupMemberMetadataValue(CoordinatorValue, record_type=10, versions="0", flexible="0+"):
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=12, versions="0"):
    group_id: str = string("0")


class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue, record_type=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", ignorable=True, tag=0)


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=13, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartition(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ShareGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=14, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=14, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ShareGroupStatePartitionMetadataKey(CoordinatorKey, record_type=15, versions="0"):
    group_id: str = string("0")


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class TopicInfo(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")


class ShareGroupStatePartitionMetadataValue(CoordinatorValue, record_type=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+")
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+")
    deleting_topics: list[TopicInfo] = array(TopicInfo, "0+")
