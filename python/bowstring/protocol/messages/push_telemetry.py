"""Sends client metrics to a broker (KIP-714)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, binary, boolean, int8, int16, int32, uuid


class PushTelemetryRequest(Request, key=72):
    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = binary("0+")


class PushTelemetryResponse(Response, to=PushTelemetryRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
