"""Handles DescribeQuorum: lists the voters of the metadata log and their progress (KIP-595)."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from bowstring.engine.api.forwarded import ask_for_client, client_of
from bowstring.engine.metadata.names import METADATA_TOPIC
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    quorum: "QuorumService",
    configs: "BrokerConfigs",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> DescribeQuorumResponse:
    """Describes the quorum.

    Behaviour: only __cluster_metadata-0 exists; any other partition is unknown. Only the leader can describe
    the quorum, so brokers forward to it. A controller that does not lead answers NOT_LEADER_OR_FOLLOWER.

    Versions: 1 adds the times of fetches (KIP-836); 2 error messages, directory ids and nodes (KIP-853).
    """
    body: DescribeQuorumRequest = request.body
    asked = ((topic.topic_name, each.partition_index) for topic in body.topics for each in topic.partitions)
    if list(islice(asked, 2)) != [(METADATA_TOPIC, 0)]:
        return _unknown(body)
    described: DescribeQuorumResponse
    if request.listener.is_controller:
        described = await quorum.request(body, request.version)
    elif authorizer.is_on:  # with the client's principal: that of this broker may not suffice
        described = await ask_for_client(
            request, body, quorum=quorum, configs=configs, time_slices=time_slices
        )
    else:
        described = await quorum.ask_leader(body, version=request.version, client=client_of(request))
    return described


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
