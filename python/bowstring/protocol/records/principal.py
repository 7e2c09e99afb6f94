"""Declares a principal as brokers forward it inside Envelope."""

from __future__ import annotations

from bowstring.protocol.schema import Message, boolean, string


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string("0+")
    name: str = string("0+")
    token_authenticated: bool = boolean("0+")
