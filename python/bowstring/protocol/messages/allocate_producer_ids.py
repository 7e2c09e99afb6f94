"""Reserves a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, int16, int32, int64


class AllocateProducerIdsRequest(Request, key=67, served_by=("controller",)):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Response, to=AllocateProducerIdsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
