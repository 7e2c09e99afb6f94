"""Sets or removes SCRAM credentials."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, Struct, array, binary, int8, int16, int32, string


class ScramCredentialDeletion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")


class ScramCredentialUpsertion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = binary("0+", secret=True)
    salted_password: bytes = binary("0+", secret=True)


class AlterUserScramCredentialsRequest(Request, key=51, served_by=("broker", "controller")):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Response, to=AlterUserScramCredentialsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")
