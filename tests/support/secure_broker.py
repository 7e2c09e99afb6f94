"""A fake broker with TLS by Python's ssl and with SASL, whose answers a test chooses."""

import contextlib
import ssl
import tempfile
import threading
from pathlib import Path

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from bowstring.security import scram
from tests.support.addresses import own_address
from tests.support.certificates import authority
from tests.support.fake_broker import CLOSE, FakeBroker

PASSWORDS = {"alice": "alice-secret"}
TOKEN = "a.bearer-token"


def server_context(identity=None, client_authority=None):
    """A server's context with an identity; with an authority, clients must have its certificates."""
    identity = identity or authority().identity("broker", (own_address(), "localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        pem = Path(folder) / "server.pem"
        pem.write_bytes(identity.certificate + identity.key)
        context.load_cert_chain(pem)
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_authority.certificate.decode())
    return context


class ServerLogin:
    """The server's side of one connection's logins."""

    def __init__(self, passwords, token):
        self.passwords, self.token = passwords, token
        self.mechanism = ""
        self.done = False
        self.logins = 0
        self.exchange = None

    def answer(self, data):
        """(bytes of the answer, whether the client is who it says), None: refused."""
        if self.mechanism == "PLAIN":
            _, user, password = data.decode().split("\0")
            return (b"", True) if self.passwords.get(user) == password else None
        if self.mechanism == "OAUTHBEARER":
            return (b"", True) if data == f"n,,\1auth=Bearer {self.token()}\1\1".encode() else None
        return self.scram(data)

    def scram(self, data):
        mechanism = scram.SCRAM_MECHANISMS[self.mechanism]
        if self.exchange is None:
            first = scram.parse_client_first(data)
            credential = scram.new_credential(mechanism, self.passwords.get(first.name, "?"))
            told = scram.server_first(first.nonce + "server", credential)
            self.exchange = (credential, f"{first.bare},{told}")
            return told.encode(), False
        (credential, messages), self.exchange = self.exchange, None
        final = scram.parse_client_final(data)
        messages = f"{messages},{final.bare}"
        if not scram.is_proof(mechanism, credential, final.proof, messages):
            return None
        return scram.server_final(mechanism, credential, messages), True


class SecureBroker(FakeBroker):
    """Args:
    tls: a server's ssl.SSLContext; None for plain text.
    sasl: whether clients must log in first.
    lifetime_ms: of sessions; 0 for ever.
    """

    def __init__(self, *, tls=None, sasl=False, mechanisms=None, lifetime_ms=0, passwords=PASSWORDS, **more):
        self.tls, self.sasl, self.lifetime_ms = tls, sasl, lifetime_ms
        self.mechanisms = mechanisms or ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
        self.passwords, self.token = dict(passwords), lambda: TOKEN
        self.logins = []
        super().__init__(**more)
        self.handlers[SaslHandshakeRequest] = lambda version, request: None
        self.handlers[SaslAuthenticateRequest] = lambda version, request: None

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.sockets.append(connection)
                threading.Thread(target=self._secure, args=(connection,), daemon=True).start()

    def _secure(self, connection):
        if self.tls is not None:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except (OSError, ValueError):
                connection.close()
                return
            self.sockets.append(connection)
        self._serve(connection)

    def handler(self, request, connection):
        if not self.sasl or isinstance(request, ApiVersionsRequest):
            return super().handler(request, connection)
        login = next((each for other, each in self.logins if other is connection), None)
        if login is None:
            login = ServerLogin(self.passwords, lambda: self.token())
            self.logins.append((connection, login))
        if isinstance(request, SaslHandshakeRequest):
            return lambda version, request: self.handshake(login, request)
        if isinstance(request, SaslAuthenticateRequest):
            return lambda version, request: self.authenticate(login, request)
        if not login.done:
            return lambda version, request: CLOSE
        return super().handler(request, connection)

    def handshake(self, login, request):
        login.mechanism, login.done, login.exchange = request.mechanism, False, None
        known = request.mechanism in self.mechanisms
        code = Errors.NONE.code if known else Errors.UNSUPPORTED_SASL_MECHANISM.code
        return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    def authenticate(self, login, request):
        found = login.answer(bytes(request.auth_bytes))
        if found is None:
            return SaslAuthenticateResponse(
                error_code=Errors.SASL_AUTHENTICATION_FAILED.code, error_message="Authentication failed"
            )
        data, login.done = found
        login.logins += login.done
        lifetime_ms = self.lifetime_ms if login.done else 0
        return SaslAuthenticateResponse(auth_bytes=data, session_lifetime_ms=lifetime_ms)

    def renewals(self):
        """How many logins each connection has had."""
        return [login.logins for _, login in self.logins]


def trusting(**more):
    """Settings of a client that trusts the authority of this process."""
    return {"security.protocol": "SSL", "ssl.ca.pem": authority().certificate.decode(), **more}


def logging_in(mechanism="SCRAM-SHA-256", protocol="SASL_SSL", **more):
    """Settings of a client that logs in as alice."""
    settings = trusting() if protocol == "SASL_SSL" else {}
    settings |= {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": PASSWORDS["alice"],
    }
    return settings | more
