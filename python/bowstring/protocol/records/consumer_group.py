"""Declares the records of KIP-848 groups in __consumer_offsets."""

from __future__ import annotations

from bowstring.protocol.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Struct,
    array,
    binary,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class ConsumerGroupMetadataKey(CoordinatorKey, record_type=3, versions="0"):
    group_id: str = string("0")


class ConsumerGroupMetadataValue(CoordinatorValue, record_type=3, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, record_type=4, versions="0"):
    group_id: str = string("0")


class PartitionMetadata(Struct):
    partition: int = int32("0+")
    racks: list[str] = array(string, "0+")


class TopicMetadata(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(CoordinatorValue, record_type=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(CoordinatorKey, record_type=5, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ClassicProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(CoordinatorValue, record_type=5, versions="0", flexible="0+"):
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=6, versions="0"):
    group_id: str = string("0")


class ConsumerGroupTargetAssignmentMetadataValue(
    CoordinatorValue, record_type=6, versions="0", flexible="0+"
):
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", ignorable=True, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=7, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartition(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=8, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")
    assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=8, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(CoordinatorKey, record_type=16, versions="0"):
    group_id: str = string("0")
    regular_expression: str = string("0")


class ConsumerGroupRegularExpressionValue(CoordinatorValue, record_type=16, versions="0", flexible="0+"):
    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
