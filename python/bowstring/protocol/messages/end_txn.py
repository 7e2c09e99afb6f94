"""Commits or aborts a transaction."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, boolean, int16, int32, int64, string


class EndTxnRequest(Request, key=26):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Response, to=EndTxnRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
