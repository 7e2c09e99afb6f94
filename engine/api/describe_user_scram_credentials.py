"""Handles DescribeUserScramCredentials: lists which SCRAM credentials users have (KIP-554)."""

from typing import TYPE_CHECKING

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.metadata.scram_image import ScramImage
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices


async def handle(
    request: "Request", *, metadata: "Metadata", time_slices: "TimeSlices"
) -> DescribeUserScramCredentialsResponse:
    """Returns the mechanisms and iterations of users, never salts or keys.

    Behaviour: without names, those of every user. A name that occurs twice is DUPLICATE_RESOURCE, one
    without credentials RESOURCE_NOT_FOUND.

    Versions: there is one.
    """
    body: DescribeUserScramCredentialsRequest = request.body
    scram = metadata.image.scram
    counts: dict[str, int] = (
        await time_slices.different(each.name for each in body.users)
        if body.users
        else dict.fromkeys(scram.by_user, 1)
    )
    return DescribeUserScramCredentialsResponse(
        results=[_described(scram, user, count) for user, count in counts.items()]
    )


def _described(scram: "ScramImage", user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=Errors.DUPLICATE_RESOURCE.code,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{user}",
        )
    credentials = scram.by_user.get(user)
    if not credentials:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=Errors.RESOURCE_NOT_FOUND.code,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(
        user=user,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=record.iterations)
            for mechanism, record in sorted(credentials.items())
        ],
    )
