"""Handles StreamsGroupDescribe: returns topology, epochs and members of streams groups (KIP-1071)."""

from typing import TYPE_CHECKING

from bowstring.engine.api.group_descriptions import described_groups
from bowstring.engine.api.streams_group_heartbeat import supports_streams_groups
from bowstring.engine.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from bowstring.engine.requests.time_slices import streamed

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> StreamsGroupDescribeResponse:
    """Describes every requested group, in order."""
    body: StreamsGroupDescribeRequest = request.body
    described = described_groups(
        broker,
        body.group_ids,
        lambda shard, group_id: shard.describe_streams_group(group_id),
        refused=DescribedGroup,
        with_operations=body.include_authorized_operations,
        enabled=supports_streams_groups(broker),
    )
    return StreamsGroupDescribeResponse(groups=streamed(described))
