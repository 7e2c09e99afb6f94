"""Lists delegation tokens by owner."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, Struct, array, binary, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribeDelegationTokenRequest(Request, key=41, served_by=("broker", "controller")):
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, "0+", nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribedDelegationToken(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+", secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Response, to=DescribeDelegationTokenRequest):
    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")
