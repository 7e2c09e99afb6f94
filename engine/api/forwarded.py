"""Forwards requests to the active controller, which answers them (KIP-590)."""

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.requests.request import Request
from bowstring.protocol import API_VERSIONS, decode_large_response, decode_response, encode, encode_request
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from bowstring.protocol.records.principal import DefaultPrincipalData
from bowstring.protocol.schema import Request as AnyRequest
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.cluster_changes import ClusterChanges
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.security.tls_listeners import TlsListeners

_PRINCIPAL_VERSION: Final = 0
_RETRY_S: Final = 0.05
_LAZY_BYTES: Final = 16384


async def handle(
    request: "Request",
    *,
    node_id: int,
    configs: "BrokerConfigs",
    quorum: "QuorumService",
    changes: "ClusterChanges",
    time_slices: "TimeSlices",
    authorizer: "Authorizer",
    tls: "TlsListeners | None",
) -> Response:
    """Sends the request on, and the answer back. What this node's own controller has committed is carried out
    here when the answer is sent: a client that goes on finds its topic open.

    Behaviour: NOT_CONTROLLER when no controller answers within request.timeout.ms; REQUEST_TIMED_OUT when the
    request waited so long behind others. One request of a client is on its way at a time. With too many that
    wait it is refused with THROTTLING_QUOTA_EXCEEDED. After a connection that ended without an answer it is
    sent again, as in Kafka: what the first time did, the second one may refuse. Log levels are this broker's
    own, and stay here; configs of another broker, and key stores that this one cannot use, are refused
    here. The controller checks the client's
    permissions, for which it gets its principal.

    Versions: the controller gets that of the request, because the answer must fit it.
    """
    timeout_ms = configs.value("request.timeout.ms")
    body: Any = request.body
    if request.api_key not in (ApiKeys.ALTER_CONFIGS, ApiKeys.INCREMENTAL_ALTER_CONFIGS):
        response = await _ask_controller(quorum, request, body, timeout_ms, time_slices, is_relayed=True)
        await changes.carried_out()
        return response
    from bowstring.engine.api.key_changes import refused_keys
    from bowstring.engine.api.own_resources import OwnResources

    refused = await refused_keys(request, node_id, quorum.image, tls, authorizer, configs=configs)
    own = OwnResources(request, node_id, authorizer, refused)
    if own.rest is None:
        return own.response
    answer: Any = await _ask_controller(quorum, request, own.rest, timeout_ms, time_slices)
    await changes.carried_out()
    answer.responses = own.among(answer.responses)
    merged: Response = answer
    return merged


async def ask_for_client(
    request: "Request",
    body: "AnyRequest",
    *,
    quorum: "QuorumService",
    configs: "BrokerConfigs",
    time_slices: "TimeSlices",
) -> Any:
    """Sends what a client's request makes necessary to the active controller, which checks that the client
    may do it; returns the response's body.

    Raises:
        KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED, or the controller's refusal.
    """
    inner = Request(
        api_key=body.api_key,
        version=API_VERSIONS[body.api_key].highest,
        body=body,
        listener=request.listener,
        correlation_id=request.correlation_id,
        client_id=request.client_id,
        principal=request.principal,
        peer=request.peer,
        is_token_authenticated=request.is_token_authenticated,
    )
    return await _ask_controller(quorum, inner, body, configs.value("request.timeout.ms"), time_slices)


async def _ask_controller(
    quorum: "QuorumService",
    request: "Request",
    body: Any,
    timeout_ms: int,
    time_slices: "TimeSlices",
    *,
    is_relayed: bool = False,
) -> Response:
    """Sends a request inside Envelope, so that the controller has its sender. When it fails, the answer
    has the error for each of its topics or resources.

    Args:
        is_relayed: The client gets the answer as it is. If it is large, its elements are decoded in slices,
            while they are encoded.
    """
    kind, _, name = request.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=request.is_token_authenticated)
    if time_slices.over():  # decoding a large request has taken long
        await time_slices.rest()
    envelope = EnvelopeRequest(
        request_data=encode_request(body, request.version, request.correlation_id, request.client_id),
        request_principal=_PRINCIPAL_VERSION.to_bytes(2, "big") + encode(principal, _PRINCIPAL_VERSION),
        client_host_address=_address(request.peer),
    )
    try:
        answer = await _ask_until_answered(quorum, envelope, timeout_ms, client_of(request))
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
    except KafkaError as error:
        refused = refusal(request.api_key, request.version, body, error)
        if refused is None:
            raise
        return refused
    if time_slices.over():
        await time_slices.rest()
    data = answer.response_data or b""
    if is_relayed and len(data) >= _LAZY_BYTES:
        return decode_large_response(request.api_key, request.version, data)
    return decode_response(request.api_key, request.version, data)[1]


def client_of(request: "Request") -> str:
    """Returns what distinguishes clients: principal, host, client id. Connections of a client share it."""
    return f"{request.principal} {request.peer.rpartition(':')[0]} {request.client_id or ''}"


async def _ask_until_answered(
    quorum: "QuorumService", envelope: EnvelopeRequest, timeout_ms: int, client: str
) -> EnvelopeResponse:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1000
    while True:
        left_ms = max(1, int((deadline_s - loop.time()) * 1000))
        try:
            answer: EnvelopeResponse = await quorum.ask_leader(envelope, left_ms, None, client)
            return answer
        except KafkaError as error:
            if error.error is not Errors.NOT_CONTROLLER or loop.time() + _RETRY_S >= deadline_s:
                raise
        await asyncio.sleep(_RETRY_S)


def _address(peer: str) -> bytes:
    """Returns the bytes of a numeric address of `host:port`."""
    host = peer.rpartition(":")[0].strip("[]")
    return ipaddress.ip_address(host or "0.0.0.0").packed
