"""Another node with TLS and SASL, played: PLAIN, and a TLS of Python's own."""

import asyncio
import ssl
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.addresses import own_address
from tests.support.certificates import authority
from tests.support.node_double import NodeDouble

USER, PASSWORD = "broker", "between us"
UNSUPPORTED_SASL_MECHANISM = 33
SASL_AUTHENTICATION_FAILED = 58
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USER}" password="{PASSWORD}";'
)


class SecuredDouble(NodeDouble):
    """A `NodeDouble` with a login.

    Attributes:
        tls: Its TLS context; None without.
        lifetime_ms: How long its sessions last.
        logins: The messages of all logins.
        accepted: Connections so far.
    """

    def __init__(self, answer=lambda request: None, *, identity=None, trusted=None, lifetime_ms=0):
        super().__init__(answer)
        self.tls = None if identity is None else server_context(identity, trusted)
        self.lifetime_ms = lifetime_ms
        self.logins = []
        self.accepted = 0
        self._other = self.answer
        self.answer = self._answer

    async def serve(self, reader, writer):
        self.accepted += 1
        await super().serve(reader, writer)

    def _answer(self, request):
        if request.api_key == ApiKeys.SASL_HANDSHAKE:
            error = 0 if request.mechanism == "PLAIN" else UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=error, mechanisms=["PLAIN"])
        if request.api_key == ApiKeys.SASL_AUTHENTICATE:
            self.logins.append(bytes(request.auth_bytes))
            if self.logins[-1] != f"\0{USER}\0{PASSWORD}".encode():
                return SaslAuthenticateResponse(
                    error_code=SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
                )
            return SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=self.lifetime_ms)
        return self._other(request)


def server_context(identity, trusted=None):
    """Returns a TLS context of Python's; with `trusted` clients must have a certificate of it."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "identity.pem")
        path.write_bytes(identity.key + identity.certificate)
        made.load_cert_chain(path)
    if trusted is not None:
        made.load_verify_locations(cadata=trusted.decode())
        made.verify_mode = ssl.CERT_REQUIRED
    return made


def node_identity(**about):
    """Returns a certificate for the address at which doubles listen."""
    return authority().identity("node", (own_address(),), **about)


@asynccontextmanager
async def secured(double):
    """Lets it listen."""
    server = await asyncio.start_server(double.serve, double.host, 0, ssl=double.tls)
    double.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        server.close()
