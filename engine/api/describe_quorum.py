"""Handles DescribeQuorum: lists the voters of the metadata log and their progress (KIP-595)."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from bowstring.engine.api.forwarded import client_of
from bowstring.engine.metadata.names import METADATA_TOPIC
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Node,
    ReplicaState,
)
from bowstring.protocol.messages.describe_quorum import (
    Listener as NodeListener,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.listeners import Listener
    from bowstring.engine.requests.request import Request


async def handle(
    request: "Request",
    *,
    node_id: int,
    metadata: "Metadata",
    advertised: "list[Listener]",
    quorum: "QuorumService | None",
) -> DescribeQuorumResponse:
    """Describes the quorum; on a node alone one of one voter, this node.

    Behaviour: only __cluster_metadata-0 exists; any other partition is unknown. Only the leader can describe
    the quorum, so brokers forward to it. A controller that does not lead answers NOT_LEADER_OR_FOLLOWER.

    Versions: 1 adds the times of fetches (KIP-836); 2 error messages, directory ids and nodes (KIP-853).
    """
    body: DescribeQuorumRequest = request.body
    asked = ((topic.topic_name, each.partition_index) for topic in body.topics for each in topic.partitions)
    if list(islice(asked, 2)) != [(METADATA_TOPIC, 0)]:
        return _unknown(body)
    if quorum is not None:
        described: DescribeQuorumResponse
        if request.listener.is_controller:
            described = await quorum.request(body, request.version)
        else:
            described = await quorum.ask_leader(body, version=request.version, client=client_of(request))
        return described
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition(node_id, metadata, partition.partition_index) for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ],
        # Versions below 2 have no field for nodes.
        nodes=[_node(node_id, advertised)] if request.version >= 2 else [],
    )


def _unknown(body: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Returns the answer to a request for any other partition: it is unknown."""
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=streamed(
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name, partitions=streamed(_failed(topic, error))
            )
            for topic in body.topics
        ),
    )


def _failed(
    topic: DescribeQuorumRequestTopicData, error: Error
) -> Iterator[DescribeQuorumResponsePartitionData]:
    for each in topic.partitions:
        yield DescribeQuorumResponsePartitionData(
            partition_index=each.partition_index, error_code=error.code, error_message=error.message
        )


def _partition(node_id: int, metadata: "Metadata", index: int) -> DescribeQuorumResponsePartitionData:
    now_ms = time.time_ns() // 1_000_000
    end = metadata.end_offset
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        error_message=None,
        leader_id=node_id,
        leader_epoch=metadata.leader_epoch,
        high_watermark=end,
        current_voters=[
            ReplicaState(
                replica_id=node_id,
                log_end_offset=end,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
        ],
    )


def _node(node_id: int, advertised: "list[Listener]") -> Node:
    return Node(
        node_id=node_id,
        listeners=[NodeListener(name=each.name, host=each.host, port=each.port) for each in advertised],
    )
