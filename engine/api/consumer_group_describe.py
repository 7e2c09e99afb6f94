"""Handles ConsumerGroupDescribe: returns epochs, members and assignments of consumer groups (KIP-848).

Versions: 1 whether a member uses the classic protocol.
"""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.consumer_group_heartbeat import supports_consumer_groups
from bowstring.engine.api.group_descriptions import GroupRights, described_groups
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
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

HIDDEN_TOPICS: Final = "The group has topics that the client may not describe."
"""What a client gets in place of a description that would name such topics."""
_TOPICS: Final = (
    "members.assignment.topic_partitions.topic_name",
    "members.target_assignment.topic_partitions.topic_name",
)


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> ConsumerGroupDescribeResponse:
    """Describes every requested group, in order."""
    body: ConsumerGroupDescribeRequest = request.body
    described = described_groups(
        groups,
        body.group_ids,
        lambda shard, group_id: shard.describe_consumer_group(group_id),
        rights=GroupRights(request, authorizer, time_slices, topics=_TOPICS, advice=HIDDEN_TOPICS),
        refused=DescribedGroup,
        with_operations=body.include_authorized_operations,
        enabled=supports_consumer_groups(configs, metadata),
    )
    return ConsumerGroupDescribeResponse(groups=streamed(described))
