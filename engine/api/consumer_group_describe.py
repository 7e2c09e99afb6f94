"""Handles ConsumerGroupDescribe: returns epochs, members and assignments of consumer groups (KIP-848).

Versions: 1 whether a member uses the classic protocol.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from bowstring.engine.api.authorized_operations import GROUP_OPERATIONS
from bowstring.engine.api.consumer_group_heartbeat import supports_consumer_groups
from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from bowstring.engine.requests.time_slices import streamed

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request


async def handle(broker: "BrokerServices", request: "Request") -> ConsumerGroupDescribeResponse:
    """Describes every requested group, in order."""
    return ConsumerGroupDescribeResponse(groups=streamed(_described(broker, request.body)))


async def _described(
    broker: "BrokerServices", body: ConsumerGroupDescribeRequest
) -> AsyncIterator[DescribedGroup]:
    enabled = supports_consumer_groups(broker)
    for group_id in body.group_ids:
        try:
            if not group_id:
                raise KafkaError(Errors.INVALID_GROUP_ID)
            if not enabled:
                raise KafkaError(Errors.UNSUPPORTED_VERSION)
            described = await _describe(broker, group_id)
        except KafkaError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail)
        if body.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        yield described


async def _describe(broker: "BrokerServices", group_id: str) -> DescribedGroup:
    """Describes a group as it is now, once that is committed."""
    described: DescribedGroup = await broker.groups.ask(
        group_id, lambda shard, token, now_ms: [Respond(token, shard.describe_consumer_group(group_id))]
    )
    return described
