"""Keeps a classic member alive and announces rebalances to it."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request, key=12):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, to=HeartbeatRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
