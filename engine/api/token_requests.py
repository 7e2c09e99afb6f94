"""Handles CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken on brokers (KIP-48)."""

from typing import TYPE_CHECKING

from bowstring.engine.api import forwarded
from bowstring.engine.api.delegation_tokens import denial, refused
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    node_id: int,
    configs: "BrokerConfigs",
    quorum: "QuorumService",
    changes: "ClusterChanges",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
) -> Response:
    """Sends the request on to the active controller.

    Behaviour: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED from a client that has not authenticated, or has with a
    delegation token. A token for another owner needs CREATE_TOKENS on that user.

    Versions: of CreateDelegationToken, 3 has the owner (KIP-373).
    """
    if error := denial(request, authorizer):
        return refused(request, error)
    return await forwarded.handle(
        request,
        node_id=node_id,
        configs=configs,
        quorum=quorum,
        changes=changes,
        time_slices=time_slices,
        authorizer=authorizer,
        tls=None,
    )
