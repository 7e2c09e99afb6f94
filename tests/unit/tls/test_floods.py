"""Peers that send TLS messages without data: they cost time and answers, and must not go on for ever."""

import ctypes

import pytest

from bowstring._native.tls.context import TlsError
from bowstring._native.tls.session import TlsSession
from tests.support.tls_contexts import server_context

UPDATES_ALLOWED = 64
UPDATE_NOT_REQUESTED, UPDATE_REQUESTED = 0, 1


class OpenSslClient:
    """A client by OpenSSL's own functions, which Python's ssl module does not offer all of."""

    def __init__(self) -> None:
        self.ssl_library = ctypes.CDLL("libssl.so.3")
        self.crypto = ctypes.CDLL("libcrypto.so.3")
        context = self._new("TLS_client_method", "SSL_CTX_new")
        self.ssl = ctypes.c_void_p(self._pointer("SSL_new", context))
        self._call("SSL_CTX_free", context)
        self.incoming, self.sent = (
            ctypes.c_void_p(self._pointer("BIO_new", ctypes.c_void_p(self._pointer("BIO_s_mem"))))
            for _ in range(2)
        )
        self._call("SSL_set_bio", self.ssl, self.incoming, self.sent)
        self._call("SSL_set_connect_state", self.ssl)

    def close(self) -> None:
        self._call("SSL_free", self.ssl)

    def _function(self, name: str) -> "ctypes._NamedFuncPointer":
        return getattr(self.crypto if name.startswith("BIO_") else self.ssl_library, name)

    def _call(self, name: str, *arguments: object) -> int:
        return int(self._function(name)(*arguments))

    def _pointer(self, name: str, *arguments: object) -> int:
        function = self._function(name)
        function.restype = ctypes.c_void_p
        return int(function(*arguments))

    def _new(self, method: str, maker: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._pointer(maker, ctypes.c_void_p(self._pointer(method))))

    def outgoing(self) -> bytes:
        out = ctypes.create_string_buffer(1 << 16)
        n = self._call("BIO_read", self.sent, out, len(out))
        return out.raw[: max(n, 0)]

    def shake(self, server: TlsSession) -> None:
        while self._call("SSL_do_handshake", self.ssl) != 1 or not server.established:
            server.receive(self.outgoing())
            answer = server.outgoing()
            self._call("BIO_write", self.incoming, answer, len(answer))
        server.receive(self.outgoing())
        server.outgoing()

    def update_keys(self, kind: int) -> bytes:
        assert self._call("SSL_key_update", self.ssl, kind) == 1
        assert self._call("SSL_do_handshake", self.ssl) == 1
        return self.outgoing()

    def send(self, data: bytes) -> bytes:
        assert self._call("SSL_write", self.ssl, data, len(data)) == len(data)
        return self.outgoing()


@pytest.fixture
def server():
    return TlsSession(server_context())


@pytest.fixture
def client(server):
    client = OpenSslClient()
    client.shake(server)
    yield client
    client.close()


class TestKeyUpdates:
    """RFC 8446, 4.6.3."""

    @pytest.mark.parametrize("kind", [UPDATE_NOT_REQUESTED, UPDATE_REQUESTED])
    def test_a_flood_ends_the_connection(self, server, client, kind):
        flood = b"".join(client.update_keys(kind) for _ in range(2 * UPDATES_ALLOWED))
        with pytest.raises(TlsError, match="messages without data"):
            server.receive(flood)
        assert len(server.outgoing()) < 64 * UPDATES_ALLOWED

    @pytest.mark.parametrize("kind", [UPDATE_NOT_REQUESTED, UPDATE_REQUESTED])
    def test_between_data_they_are_welcome(self, server, client, kind):
        for _ in range(2 * UPDATES_ALLOWED):
            sent = client.update_keys(kind) + client.update_keys(kind) + client.send(b"data")
            assert server.receive(sent) == b"data"
        assert len(server.outgoing()) > 0 or kind == UPDATE_NOT_REQUESTED

    def test_one_at_a_time(self, server, client):
        with pytest.raises(TlsError, match="messages without data"):
            for _ in range(4 * UPDATES_ALLOWED):
                server.receive(client.update_keys(UPDATE_REQUESTED))
