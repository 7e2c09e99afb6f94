"""Handles requests between replicas of the metadata quorum: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch
and FetchSnapshot of the metadata log (KIP-595, KIP-630), and changes of voters (KIP-853).
"""

from typing import TYPE_CHECKING

from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request


async def handle(request: "Request", *, quorum: "QuorumService") -> Response:
    """Answers from this node's replica.

    Behaviour: a request for any partition but __cluster_metadata-0 is invalid.

    Versions: of Vote, 1 adds directory ids, 2 the pre-vote (KIP-996); of the others, see `engine.raft.wire`.
    """
    response: Response = await quorum.request(request.body, request.version)
    return response
