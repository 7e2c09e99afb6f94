"""Handles ListGroups: lists the groups that this broker coordinates.

Versions: 4 filter by state (KIP-518); 5 filter by type (KIP-848).
"""

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from bowstring.engine.api.denials import allows_on_cluster, hides
from bowstring.engine.groups.administration import GroupFilter
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.groups.shard import GroupShard
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
) -> ListGroupsResponse:
    """Lists all groups that the client may describe, or answers COORDINATOR_LOAD_IN_PROGRESS, because an
    incomplete list would look complete.
    """
    body: ListGroupsRequest = request.body
    wanted = GroupFilter()
    async for name in time_slices.each(body.states_filter):
        wanted.add_state(name)
    async for name in time_slices.each(body.types_filter):
        wanted.add_type(name)
    sees_all = allows_on_cluster(authorizer, request, AclOperation.DESCRIBE)

    def is_seen(group: ListedGroup) -> bool:
        kind = AclResourceType.GROUP
        return sees_all or not hides(authorizer, request, AclOperation.DESCRIBE, kind, group.group_id)

    shards = list(groups.shards())
    return ListGroupsResponse(groups=streamed(_selected(time_slices, groups, shards, wanted, is_seen)))


async def _selected(
    time_slices: "TimeSlices",
    groups: "GroupCoordinatorService",
    shards: "list[tuple[int, GroupShard]]",
    wanted: GroupFilter,
    is_seen: Callable[[ListedGroup], bool],
) -> AsyncIterator[ListedGroup]:
    """Yields the groups that the filter selects and the client sees; rests also between others."""
    for partition, shard in shards:
        found = [
            group
            async for group in time_slices.each(shard.list_groups())
            if wanted.selects(group) and is_seen(group)
        ]
        try:
            await groups.committed(partition)
        except KafkaError as error:
            if error.error is Errors.NOT_COORDINATOR:
                continue  # as in Kafka, the groups of a shard that has moved away are left out
            raise
        for group in found:
            yield group
