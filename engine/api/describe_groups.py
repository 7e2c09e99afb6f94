"""DescribeGroups: shows the state and members of classic groups.

Versions: 3 authorized operations (KIP-430); 4 instance ids; 6 GROUP_ID_NOT_FOUND.
"""

from typing import TYPE_CHECKING

from bowstring.engine.api.authorized_operations import GROUP_OPERATIONS
from bowstring.engine.errors import KafkaError
from bowstring.engine.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> DescribeGroupsResponse:
    """Every group asked for, in order."""
    body: DescribeGroupsRequest = request.body
    groups = []
    for group_id in body.groups:
        try:
            described = broker.groups.shard_of(group_id).describe_group(group_id, request.version)
        except KafkaError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code)
        if body.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        groups.append(described)
    return DescribeGroupsResponse(groups=groups)
