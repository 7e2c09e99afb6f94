"""Handles Envelope: the active controller answers a client's request that a broker sends on (KIP-590)."""

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.api.table import TABLE
from bowstring.engine.requests.answers import encoded
from bowstring.engine.requests.request import Request
from bowstring.protocol import (
    API_VERSIONS,
    DecodedHeader,
    ProtocolError,
    decode,
    decode_request,
    decode_request_header,
)
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from bowstring.protocol.records.principal import DefaultPrincipalData
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.binding import HandlerOf
    from bowstring.engine.requests.time_slices import TimeSlices

_VERSION_BYTES: Final = 2


async def handle(
    request: Request, *, controller: "QuorumController", handler_of: "HandlerOf", time_slices: "TimeSlices"
) -> EnvelopeResponse:
    """Answers the request inside as if the client had sent it here; its answer is inside the response. Only
    brokers may send it (CLUSTER_ACTION); what the request inside needs is checked for the client.

    Behaviour: NOT_CONTROLLER if this node is not the active controller, or no longer when it answers: the
    broker looks for another one. INVALID_REQUEST if brokers must not forward the request inside,
    PRINCIPAL_DESERIALIZATION_FAILURE if its principal cannot be read.
    """
    body: EnvelopeRequest = request.body
    header = _header(body)
    principal = _principal(body.request_principal)
    inner = Request(
        api_key=header.api_key,
        version=header.api_version,
        body=_body(header, body),
        listener=request.listener,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        principal=f"{principal.type}:{principal.name}",
        is_token_authenticated=principal.token_authenticated,
        is_forwarded=True,
        peer=f"{_address(body.client_host_address)}:0",
        connection_id=request.connection_id,
        slot=request.slot,
        received_ns=request.received_ns,
    )
    if time_slices.over():  # decoding a large request has taken long
        await time_slices.rest()
    if not controller.is_active:
        raise KafkaError(Errors.NOT_CONTROLLER)
    response: Response | None
    try:
        response = await handler_of(inner.api_key)(inner)
    except KafkaError as error:
        if error.error is Errors.NOT_CONTROLLER:
            raise
        response = refusal(inner.api_key, inner.version, inner.body, error, is_streamed=True)
        if response is None:
            raise
    encoding = await encoded(inner.api_key, inner.version, inner.correlation_id, response, time_slices)
    return EnvelopeResponse(response_data=encoding.take())


def _header(body: EnvelopeRequest) -> DecodedHeader:
    try:
        header = decode_request_header(body.request_data)
    except ProtocolError as error:
        raise KafkaError(Errors.INVALID_REQUEST, str(error)) from error
    row = TABLE.get(header.api_key)
    if row is None or not (row.forwarded or row.is_accepted_in_envelope):
        raise KafkaError(
            Errors.INVALID_REQUEST, f"brokers do not forward {API_VERSIONS[header.api_key].name}"
        )
    api = API_VERSIONS[header.api_key]
    if not api.lowest <= header.api_version <= api.highest:
        raise KafkaError(Errors.UNSUPPORTED_VERSION, f"{api.name} {header.api_version}")
    return header


def _body(header: DecodedHeader, body: EnvelopeRequest) -> Any:
    try:
        return decode_request(header.api_key, header.api_version, body.request_data, header.body_offset)
    except ProtocolError as error:
        raise KafkaError(Errors.INVALID_REQUEST, str(error)) from error


def _principal(data: bytes | None) -> DefaultPrincipalData:
    """Returns the principal behind the version of its encoding."""
    try:
        if data is None:
            raise KafkaError(Errors.PRINCIPAL_DESERIALIZATION_FAILURE, "there is no principal")
        version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
        found: DefaultPrincipalData = decode(DefaultPrincipalData, version, data, _VERSION_BYTES)
    except ProtocolError as error:
        raise KafkaError(Errors.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return found


def _address(data: bytes) -> str:
    try:
        return str(ipaddress.ip_address(data))
    except ValueError as error:
        raise KafkaError(Errors.INVALID_REQUEST, "the client's address is malformed") from error
