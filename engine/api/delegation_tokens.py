"""Handles CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken on controllers (KIP-48)."""

import hmac
import time
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api.denials import denies
from bowstring.engine.controller import delegation_tokens as decisions
from bowstring.engine.controller.delegation_tokens import Lifetimes
from bowstring.engine.security.principals import ANONYMOUS
from bowstring.engine.security.token_secret import secret_of, token_hmac
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.ids import format_uuid
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from bowstring.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from bowstring.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from bowstring.protocol.records.cluster_metadata.security import DelegationTokenRecord
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.controller.state import ControllerState
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer

_REQUESTER_VERSION: Final = 3


async def handle(
    request: "Request",
    *,
    controller: "QuorumController",
    configs: "BrokerConfigs",
    authorizer: "Authorizer",
) -> Response:
    """Adds, extends or ends a token. The metadata log gets everything but its HMAC.

    Behaviour: DELEGATION_TOKEN_AUTH_DISABLED without delegation.token.secret.key, which is the same on all
    nodes. The owner of a token and its renewers may extend and end it. What brokers check is checked again:
    clients may send this to a controller, too.

    Versions: of CreateDelegationToken, 3 has the owner (KIP-373).
    """
    if denied := denial(request, authorizer):
        return refused(request, denied)
    secret = secret_of(configs)
    if secret is None:
        return refused(request, Errors.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    lifetimes = Lifetimes(
        configs.value("delegation.token.max.lifetime.ms"), configs.value("delegation.token.expiry.time.ms")
    )
    wall_ms = time.time_ns() // 1_000_000
    try:
        if request.api_key == ApiKeys.CREATE_DELEGATION_TOKEN:
            return await _create(request, controller, secret, lifetimes, wall_ms)
        return await _change(request, controller, secret, lifetimes, wall_ms)
    except KafkaError as error:
        if error.error is Errors.NOT_CONTROLLER:
            raise
        return refused(request, error.error, 0)


async def _create(
    request: "Request", controller: "QuorumController", secret: bytes, lifetimes: Lifetimes, wall_ms: int
) -> Response:
    body = request.body

    def decide(state: "ControllerState", now_ms: int) -> Any:
        decisions.check_level(state.metadata_version)
        return decisions.create_token(
            format_uuid(state.new_uuid()),
            owner=owner_of(request),
            requester=request.principal,
            renewers=[(each.principal_type, each.principal_name) for each in body.renewers],
            max_lifetime_ms=body.max_lifetime_ms,
            lifetimes=lifetimes,
            now_ms=wall_ms,
        )

    token: DelegationTokenRecord = await controller.run(decide)
    answer: Any = refused(request, Errors.NONE)
    answer.issue_timestamp_ms = token.issue_timestamp
    answer.expiry_timestamp_ms = token.expiration_timestamp
    answer.max_timestamp_ms = token.max_timestamp
    answer.token_id = token.token_id
    answer.hmac = token_hmac(secret, token.token_id)
    created: Response = answer
    return created


async def _change(
    request: "Request", controller: "QuorumController", secret: bytes, lifetimes: Lifetimes, wall_ms: int
) -> Response:
    body = request.body
    wanted = bytes(body.hmac)

    def decide(state: "ControllerState", now_ms: int) -> Any:
        decisions.check_level(state.metadata_version)
        token = None
        for each in state.image.delegation_tokens.by_id.values():
            if hmac.compare_digest(token_hmac(secret, each.token_id), wanted):
                token = each
        if request.api_key == ApiKeys.RENEW_DELEGATION_TOKEN:
            return decisions.renew_token(
                token, request.principal, body.renew_period_ms, lifetimes=lifetimes, now_ms=wall_ms
            )
        return decisions.expire_token(token, request.principal, body.expiry_time_period_ms, now_ms=wall_ms)

    end_ms: int = await controller.run(decide)
    answer: Any = refused(request, Errors.NONE)
    answer.expiry_timestamp_ms = end_ms
    changed: Response = answer
    return changed


def denial(request: "Request", authorizer: "Authorizer") -> Error | None:
    """Returns why the sender may not have to do with tokens, or not with those of another owner."""
    protocol = request.listener.protocol
    if request.is_token_authenticated or not (
        request.is_forwarded  # the broker has looked at the client's own connection
        or protocol.startswith("SASL")
        or (protocol == "SSL" and request.principal != ANONYMOUS)
    ):
        return Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if request.api_key != ApiKeys.CREATE_DELEGATION_TOKEN:
        return None
    owner = owner_of(request)
    operation, kind = AclOperation.CREATE_TOKENS, AclResourceType.USER
    if owner != request.principal and denies(authorizer, request, operation, kind, owner):
        return Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return None


def owner_of(request: "Request") -> str:
    """Returns the principal that a token is created for."""
    name = request.body.owner_principal_name
    return f"{request.body.owner_principal_type}:{name}" if name else request.principal


def refused(request: "Request", error: Error, time_ms: int = -1) -> Response:
    """Returns the answer with an error.

    Args:
        time_ms: The end of a token in the answer. Kafka's controller has 0 for tokens, -1 for senders without
            the right.
    """
    if request.api_key != ApiKeys.CREATE_DELEGATION_TOKEN:
        is_renewal = request.api_key == ApiKeys.RENEW_DELEGATION_TOKEN
        response = RenewDelegationTokenResponse if is_renewal else ExpireDelegationTokenResponse
        return response(error_code=error.code, expiry_timestamp_ms=time_ms)
    owner_type, _, owner = owner_of(request).partition(":")
    names_requester = request.version >= _REQUESTER_VERSION
    requester_type, _, requester = (request.principal if names_requester else "").partition(":")
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
