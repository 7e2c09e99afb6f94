"""Carries a client request from a broker to the controller (KIP-590)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, binary, int16


class EnvelopeRequest(Request, key=58, served_by=("controller",)):
    request_data: bytes = binary("0+", secret=True)
    request_principal: bytes | None = binary("0+", nullable="0+")
    client_host_address: bytes = binary("0+")


class EnvelopeResponse(Response, to=EnvelopeRequest):
    response_data: bytes | None = binary("0+", nullable="0+", default=None, secret=True)
    error_code: int = int16("0+")
