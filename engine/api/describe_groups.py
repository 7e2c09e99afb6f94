"""Handles DescribeGroups: returns the state and members of classic groups.

Versions: 3 authorized operations (KIP-430); 4 instance ids; 6 GROUP_ID_NOT_FOUND.
"""

from typing import TYPE_CHECKING

from bowstring.engine.api.group_descriptions import GroupRights, described_groups
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> DescribeGroupsResponse:
    """Describes every requested group, in order."""
    body: DescribeGroupsRequest = request.body
    described = described_groups(
        groups,
        body.groups,
        lambda shard, group_id: shard.describe_group(group_id, request.version),
        rights=GroupRights(request, authorizer, time_slices),
        refused=DescribedGroup,
        with_operations=body.include_authorized_operations,
        allows_empty_id=True,
    )
    return DescribeGroupsResponse(groups=streamed(described))
