"""Handles DescribeDelegationToken: lists delegation tokens by owner (KIP-48)."""

from typing import TYPE_CHECKING

from bowstring.engine.api.delegation_tokens import denial
from bowstring.engine.controller.delegation_tokens import may_renew
from bowstring.engine.security.token_secret import secret_of, token_hmac
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from bowstring.protocol.records.cluster_metadata.security import DelegationTokenRecord

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer


async def handle(
    request: "Request",
    *,
    metadata: "Metadata",
    configs: "BrokerConfigs",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> DescribeDelegationTokenResponse:
    """Returns the tokens that the sender owns or may renew, and those that it may see.

    Behaviour: null owners mean every token, an empty list none. Others' tokens need DESCRIBE on the
    token, or DESCRIBE_TOKENS on its owner.

    Versions: 3 has the requester (KIP-373).
    """
    body: DescribeDelegationTokenRequest = request.body
    if denial(request, authorizer):
        return DescribeDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.code)
    secret = secret_of(configs)
    if secret is None:
        return DescribeDelegationTokenResponse(error_code=Errors.DELEGATION_TOKEN_AUTH_DISABLED.code)
    owners = (
        None
        if body.owners is None
        else {f"{each.principal_type}:{each.principal_name}" for each in body.owners}
    )
    found = []
    async for token in time_slices.each(list(metadata.image.delegation_tokens.by_id.values())):
        if owners is not None and not any(may_renew(token, owner) for owner in owners):
            continue
        if may_renew(token, request.principal) or _sees(request, authorizer, token):
            found.append(_described(token, secret))
    return DescribeDelegationTokenResponse(tokens=found)


def _sees(request: "Request", authorizer: "Authorizer", token: DelegationTokenRecord) -> bool:
    return authorizer.allows(
        request, AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id
    ) or authorizer.allows(request, AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)


def _described(token: DelegationTokenRecord, secret: bytes) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = (each.partition(":") for each in token.renewers)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )
