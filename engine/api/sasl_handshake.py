"""Handles SaslHandshake and SaslAuthenticate outside the authentication phase of a connection.

The phase itself is in engine/security/authentication.py.
"""

from typing import TYPE_CHECKING

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeResponse
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request


async def handle(request: "Request") -> Response:
    """Refuses the request: its listener does not authenticate, or the connection is authenticated.

    Behaviour: ILLEGAL_SASL_STATE, also within one second after the connection has authenticated (KIP-368).

    Versions: of SaslHandshake, 1 announces SaslAuthenticate; of SaslAuthenticate, 1 has the lifetime of the
    session, 2 changes only the encoding.
    """
    code = Errors.ILLEGAL_SASL_STATE.code
    if request.api_key == ApiKeys.SASL_HANDSHAKE:
        return SaslHandshakeResponse(error_code=code)
    return SaslAuthenticateResponse(
        error_code=code,
        error_message="SaslAuthenticate request received after successful authentication",
    )
