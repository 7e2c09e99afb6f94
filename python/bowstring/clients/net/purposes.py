"""Says which requests to one broker share a connection.

A broker answers the requests of a connection one by one, in their order, and keeps some of them waiting:
Fetch for records, JoinGroup for the other members of the group. What a caller waits for must not be behind
them. As in Kafka's client, the coordinator of a group therefore has a connection of its own; here fetches
have one, too.
"""

from __future__ import annotations

from enum import Enum

from bowstring.protocol.messages import API_MODULES
from bowstring.protocol.schema import Request


class Purpose(Enum):
    """What one of the connections to a broker is for; the first request of its kind opens it.

    GENERAL has nothing that a broker keeps waiting for others. COORDINATOR has the requests of a group, in
    their order: a commit before the request that joins anew. FETCH has long polls, and acknowledgements of
    share groups, because a share session is bound to its connection (KIP-932).
    """

    GENERAL = "general"
    COORDINATOR = "coordinator"
    FETCH = "fetch"


_PURPOSES = {
    "fetch": Purpose.FETCH,
    "share_fetch": Purpose.FETCH,
    "share_acknowledge": Purpose.FETCH,
    "join_group": Purpose.COORDINATOR,
    "sync_group": Purpose.COORDINATOR,
    "leave_group": Purpose.COORDINATOR,
    "offset_commit": Purpose.COORDINATOR,
    "offset_fetch": Purpose.COORDINATOR,
}
# By key, so that a client loads only the messages that it sends.
PURPOSES = {key: _PURPOSES[module] for key, module in API_MODULES.items() if module in _PURPOSES}
assert len(PURPOSES) == len(_PURPOSES), "an API of the table does not exist"


def purpose_of(api: type[Request]) -> Purpose:
    """Returns the connection that requests of this API take."""
    return PURPOSES.get(api.api_key, Purpose.GENERAL)
