"""Carries the exchange of a SASL mechanism."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, binary, int16, int64, string


class SaslAuthenticateRequest(Request, key=36, served_by=("broker", "controller")):
    auth_bytes: bytes = binary("0+", secret=True)


class SaslAuthenticateResponse(Response, to=SaslAuthenticateRequest):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+", secret=True)
    session_lifetime_ms: int = int64("1+", ignorable=True)
