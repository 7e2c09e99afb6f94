"""Issues a delegation token (KIP-48)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, Struct, array, binary, int16, int32, int64, string


class CreatableRenewers(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class CreateDelegationTokenRequest(Request, key=38, served_by=("broker", "controller")):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+")
    max_lifetime_ms: int = int64("0+")


class CreateDelegationTokenResponse(Response, to=CreateDelegationTokenRequest):
    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+", secret=True)
    throttle_time_ms: int = int32("0+")
