"""Removes a voter from the metadata quorum."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, int16, int32, string, uuid


class RemoveRaftVoterRequest(Request, key=81, served_by=("broker", "controller")):
    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")


class RemoveRaftVoterResponse(Response, to=RemoveRaftVoterRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
