"""Chooses a SASL mechanism."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request, key=17, served_by=("broker", "controller")):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Response, to=SaslHandshakeRequest):
    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")
