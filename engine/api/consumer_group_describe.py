"""Handles ConsumerGroupDescribe: returns epochs, members and assignments of consumer groups (KIP-848).

Versions: 1 whether a member uses the classic protocol.
"""

from typing import TYPE_CHECKING

from bowstring.engine.api.consumer_group_heartbeat import supports_consumer_groups
from bowstring.engine.api.group_descriptions import described_groups
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request


async def handle(
    request: "Request", *, configs: "BrokerConfigs", metadata: "Metadata", groups: "GroupCoordinatorService"
) -> ConsumerGroupDescribeResponse:
    """Describes every requested group, in order."""
    body: ConsumerGroupDescribeRequest = request.body
    described = described_groups(
        groups,
        body.group_ids,
        lambda shard, group_id: shard.describe_consumer_group(group_id),
        refused=DescribedGroup,
        with_operations=body.include_authorized_operations,
        enabled=supports_consumer_groups(configs, metadata),
    )
    return ConsumerGroupDescribeResponse(groups=streamed(described))
