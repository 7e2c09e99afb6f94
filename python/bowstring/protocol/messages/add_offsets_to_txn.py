"""Adds the offsets of a group to a transaction."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, key=25):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Response, to=AddOffsetsToTxnRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
