"""Handles DescribeGroups: returns the state and members of classic groups.

Versions: 3 authorized operations (KIP-430); 4 instance ids; 6 GROUP_ID_NOT_FOUND.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from bowstring.engine.api.authorized_operations import GROUP_OPERATIONS
from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.errors import KafkaError
from bowstring.engine.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from bowstring.engine.requests.time_slices import streamed

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> DescribeGroupsResponse:
    """Describes every requested group, in order."""
    return DescribeGroupsResponse(groups=streamed(_described(broker, request.body, request.version)))


async def _described(
    broker: "BrokerServices", body: DescribeGroupsRequest, version: int
) -> AsyncIterator[DescribedGroup]:
    for group_id in body.groups:
        try:
            described = await _describe(broker, group_id, version)
        except KafkaError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code)
        if body.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        yield described


async def _describe(broker: "BrokerServices", group_id: str, version: int) -> DescribedGroup:
    """Describes a group as it is now, once that is committed."""
    described: DescribedGroup = await broker.groups.ask(
        group_id, lambda shard, token, now_ms: [Respond(token, shard.describe_group(group_id, version))]
    )
    return described
