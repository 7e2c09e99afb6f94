"""Handles AlterUserScramCredentials: sets and removes SCRAM credentials (KIP-554)."""

from typing import TYPE_CHECKING

from bowstring.engine.controller.scram_users import alter_scram_credentials
from bowstring.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request


async def handle(request: "Request", *, controller: "QuorumController") -> AlterUserScramCredentialsResponse:
    """Changes the credentials of each user, or answers why not; one commit covers all.

    Behaviour: nodes authenticate by what is committed. Connections that are authenticated stay so until
    their sessions end. The metadata log gets keys, never the salted password.

    Versions: there is one.
    """
    body: AlterUserScramCredentialsRequest = request.body
    answer: AlterUserScramCredentialsResponse = await controller.run(
        lambda state, now_ms: alter_scram_credentials(
            state.image.scram, body, metadata_version=state.metadata_version
        )
    )
    return answer
