"""Removes the registration of a broker."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, int16, int32, string


class UnregisterBrokerRequest(Request, key=64, served_by=("broker", "controller")):
    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Response, to=UnregisterBrokerRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
