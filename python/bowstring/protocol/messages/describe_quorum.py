"""Shows the leader, voters and observers of the metadata quorum."""

from __future__ import annotations

from bowstring.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int = int32("0+")


class DescribeQuorumRequestTopicData(Struct):
    topic_name: str = string("0+")
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData, "0+")


class DescribeQuorumRequest(Request, key=55, served_by=("broker", "controller")):
    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData, "0+")


class ReplicaState(Struct):
    replica_id: int = int32("0+")
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    high_watermark: int = int64("0+")
    current_voters: list[ReplicaState] = array(ReplicaState, "0+")
    observers: list[ReplicaState] = array(ReplicaState, "0+")


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = string("0+")
    partitions: list[DescribeQuorumResponsePartitionData] = array(DescribeQuorumResponsePartitionData, "0+")


class Listener(Struct):
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class Node(Struct):
    node_id: int = int32("2+")
    listeners: list[Listener] = array(Listener, "2+")


class DescribeQuorumResponse(Response, to=DescribeQuorumRequest):
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData, "0+")
    nodes: list[Node] = array(Node, "2+")
