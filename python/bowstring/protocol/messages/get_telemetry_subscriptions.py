"""Requests the client metrics subscription of a broker (KIP-714)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, array, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Request, key=71):
    client_instance_id: bytes = uuid("0+")


class GetTelemetrySubscriptionsResponse(Response, to=GetTelemetrySubscriptionsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array(int8, "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array(string, "0+")
