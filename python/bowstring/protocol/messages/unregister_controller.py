"""Removes the registration of a controller."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, int16, int32, string


class UnregisterControllerRequest(Request, key=94, served_by=("broker", "controller")):
    controller_id: int = int32("0+")


class UnregisterControllerResponse(Response, to=UnregisterControllerRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
