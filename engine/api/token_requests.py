"""Handles CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken on brokers (KIP-48)."""

from typing import TYPE_CHECKING

from bowstring.engine.api import forwarded
from bowstring.engine.api.delegation_tokens import owner_of, refused
from bowstring.engine.security.acl_types import AclOperation, ResourceType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import ApiKeys
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
    if not may_ask(request):
        return refused(request, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if request.api_key == ApiKeys.CREATE_DELEGATION_TOKEN:
        owner = owner_of(request)
        if owner != request.principal and not authorizer.allows(
            request, AclOperation.CREATE_TOKENS, ResourceType.USER, owner
        ):
            return refused(request, Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return await forwarded.handle(
        request,
        node_id=node_id,
        configs=configs,
        quorum=quorum,
        changes=changes,
        time_slices=time_slices,
        authorizer=authorizer,
    )


def may_ask(request: "Request") -> bool:
    """Returns whether the sender of a request may have to do with tokens."""
    protocol = request.listener.protocol
    return not (
        request.is_token_authenticated
        or protocol == "PLAINTEXT"
        or (protocol == "SSL" and request.principal == "User:ANONYMOUS")
    )
