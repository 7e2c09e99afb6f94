"""Handles ShareGroupDescribe: returns epochs, members and assignments of share groups (KIP-932)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.consumer_group_describe import HIDDEN_TOPICS
from bowstring.engine.api.group_descriptions import GroupRights, described_groups
from bowstring.engine.api.share_group_heartbeat import supports_share_groups
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

_TOPICS: Final = ("members.assignment.topic_partitions.topic_name",)


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> ShareGroupDescribeResponse:
    """Describes every requested group, in order.

    Versions: 1 only; 0 was that of the early access.
    """
    body: ShareGroupDescribeRequest = request.body
    described = described_groups(
        groups,
        body.group_ids,
        lambda shard, group_id: shard.describe_share_group(group_id),
        rights=GroupRights(request, authorizer, time_slices, topics=_TOPICS, advice=HIDDEN_TOPICS),
        refused=DescribedGroup,
        with_operations=body.include_authorized_operations,
        enabled=supports_share_groups(metadata),
    )
    return ShareGroupDescribeResponse(groups=streamed(described))
