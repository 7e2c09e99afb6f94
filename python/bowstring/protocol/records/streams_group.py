"""Declares the records of streams groups in __consumer_offsets (KIP-1071)."""

from __future__ import annotations

from bowstring.protocol.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class StreamsGroupMetadataKey(CoordinatorKey, record_type=17, versions="0"):
    group_id: str = string("0")


class LastAssignmentConfig(Struct):
    key: str = string("0+")
    value: str = string("0+")


class StreamsGroupMetadataValue(CoordinatorValue, record_type=17, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")
    validated_topology_epoch: int = int32("0+", default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, "0+", nullable="0+", tag=1
    )


class StreamsGroupMemberMetadataKey(CoordinatorKey, record_type=19, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class Endpoint(Struct):
    host: str = string("0+")
    port: int = uint16("0+")


class KeyValue(Struct):
    key: str = string("0+")
    value: str = string("0+")


class StreamsGroupMemberMetadataValue(CoordinatorValue, record_type=19, versions="0", flexible="0+"):
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+")


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=20, versions="0"):
    group_id: str = string("0")


class StreamsGroupTargetAssignmentMetadataValue(
    CoordinatorValue, record_type=20, versions="0", flexible="0+"
):
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", ignorable=True, tag=0)


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=21, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct):
    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=21, versions="0", flexible="0+"):
    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(
        StreamsGroupTargetAssignmentMemberValueTaskIds, "0+"
    )
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(
        StreamsGroupTargetAssignmentMemberValueTaskIds, "0+"
    )
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(
        StreamsGroupTargetAssignmentMemberValueTaskIds, "0+"
    )


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=22, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32, "0+")
    assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=22, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds, "0+"
    )
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds, "0+"
    )
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds, "0+"
    )
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds, "0+"
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds, "0+"
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds] = array(
        StreamsGroupCurrentMemberAssignmentValueTaskIds, "0+"
    )


class StreamsGroupTopologyKey(CoordinatorKey, record_type=23, versions="0"):
    group_id: str = string("0")


class TopicConfig(Struct):
    key: str = string("0+")
    value: str = string("0+")


class TopicInfo(Struct):
    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: list[TopicConfig] = array(TopicConfig, "0+")


class CopartitionGroup(Struct):
    source_topics: list[int] = array(int16, "0+")
    source_topic_regex: list[int] = array(int16, "0+")
    repartition_source_topics: list[int] = array(int16, "0+")


class Subtopology(Struct):
    subtopology_id: str = string("0+")
    source_topics: list[str] = array(string, "0+")
    source_topic_regex: list[str] = array(string, "0+")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
    repartition_sink_topics: list[str] = array(string, "0+")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, "0+")


class StreamsGroupTopologyValue(CoordinatorValue, record_type=23, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    subtopologies: list[Subtopology] = array(Subtopology, "0+")
