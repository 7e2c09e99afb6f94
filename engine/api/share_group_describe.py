"""Handles ShareGroupDescribe: returns epochs, members and assignments of share groups (KIP-932)."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from bowstring.engine.api.authorized_operations import GROUP_OPERATIONS
from bowstring.engine.api.share_group_heartbeat import supports_share_groups
from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from bowstring.engine.requests.time_slices import streamed

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> ShareGroupDescribeResponse:
    """Describes every requested group, in order.

    Versions: 1 only; 0 was that of the early access.
    """
    return ShareGroupDescribeResponse(groups=streamed(_described(broker, request.body)))


async def _described(
    broker: "BrokerServices", body: ShareGroupDescribeRequest
) -> AsyncIterator[DescribedGroup]:
    enabled = supports_share_groups(broker)
    for group_id in body.group_ids:
        try:
            if not enabled:
                raise KafkaError(Errors.UNSUPPORTED_VERSION)
            if not group_id:
                raise KafkaError(Errors.INVALID_GROUP_ID)
            described = await _describe(broker, group_id)
        except KafkaError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail)
        if body.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        yield described


async def _describe(broker: "BrokerServices", group_id: str) -> DescribedGroup:
    """Describes a group as it is now, once that is committed."""
    described: DescribedGroup = await broker.groups.ask(
        group_id, lambda shard, token, now_ms: [Respond(token, shard.describe_share_group(group_id))]
    )
    return described
