"""Ends the life of a delegation token."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, binary, int16, int32, int64


class ExpireDelegationTokenRequest(Request, key=40, served_by=("broker", "controller")):
    hmac: bytes = binary("0+", secret=True)
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Response, to=ExpireDelegationTokenRequest):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
