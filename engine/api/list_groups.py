"""ListGroups: lists the groups this broker coordinates.

Versions: 4 filter by state (KIP-518); 5 filter by type (KIP-848).
"""

from typing import TYPE_CHECKING

from bowstring.engine.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> ListGroupsResponse:
    """All of them, or COORDINATOR_LOAD_IN_PROGRESS: an incomplete list would look complete."""
    body: ListGroupsRequest = request.body
    groups = [
        listed
        for shard in broker.groups.shards()
        for listed in shard.list_groups(body.states_filter, body.types_filter)
    ]
    return ListGroupsResponse(groups=groups)
