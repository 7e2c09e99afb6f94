"""TLS sessions in memory, with Python's ssl module as the foreign peer."""

import ctypes
import datetime
import ssl

import pytest

from bowstring._native.tls.context import TlsContext, TlsError
from bowstring._native.tls.session import TlsSession
from tests.support.certificates import (
    DAY,
    authority,
    client_identity,
    foreign_authority,
    server_identity,
)
from tests.support.tls_contexts import client_context, load_identity, python_context, server_context
from tests.support.waiting import wait_until


def exchange(client: TlsSession, server: TlsSession, step: int = 1 << 20) -> tuple[bytes, bytes]:
    """Moves bytes until both are silent; returns the plain texts of the client and of the server."""
    at_client, at_server = b"", b""
    while True:
        up, down = client.outgoing(), server.outgoing()
        if not up and not down:
            return at_client, at_server
        for at in range(0, len(up), step):
            at_server += server.receive(up[at : at + step])
        for at in range(0, len(down), step):
            at_client += client.receive(down[at : at + step])


def connected(client_settings=None, server_settings=None, host="localhost"):
    client = TlsSession(client_context(**(client_settings or {})), host)
    server = TlsSession(server_context(**(server_settings or {})))
    exchange(client, server)
    assert client.established
    assert server.established
    return client, server


class TestBetweenOurs:
    @pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
    def test_both_versions(self, version):
        client, server = connected({"protocols": [version]})
        assert client.version == server.version == version
        assert client.cipher == server.cipher
        assert client.cipher.startswith("TLS_")

    def test_data_both_ways_one_byte_at_a_time(self):
        client, server = TlsSession(client_context(), "localhost"), TlsSession(server_context())
        exchange(client, server, step=1)
        data = bytes(range(256)) * 300
        client.send(data)
        server.send(data[::-1])
        assert exchange(client, server, step=1) == (data[::-1], data)

    def test_large_data(self):
        client, server = connected()
        data = b"x" * 5_000_000
        client.send(data)
        assert exchange(client, server)[1] == data

    def test_close_is_announced(self):
        client, server = connected()
        client.close()
        exchange(client, server)
        assert server.is_closed
        assert not client.is_closed

    def test_nothing_can_be_sent_before_the_handshake(self):
        client = TlsSession(client_context(), "localhost")
        with pytest.raises(TlsError, match="handshake has not ended"):
            client.send(b"x")

    def test_the_servers_certificate(self):
        client, server = connected()
        assert client.peer_certificate == server.context.certificate
        assert server.peer_certificate is None

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_names_and_addresses_are_checked(self, host):
        connected(host=host)

    @pytest.mark.parametrize("host", ["example.org", "127.0.0.2"])
    def test_another_host_is_refused(self, host):
        client, server = TlsSession(client_context(), host), TlsSession(server_context())
        with pytest.raises(TlsError, match=r"mismatch.*subjectAltName"):
            exchange(client, server)
        assert not client.established

    def test_without_verification_any_certificate_will_do(self):
        connected({"verify": False, "trusted": None}, host=None)

    def test_a_foreign_server_is_refused(self):
        client = TlsSession(client_context(trusted=foreign_authority().certificate), "localhost")
        server = TlsSession(server_context())
        with pytest.raises(TlsError, match=r"unable to get.*ssl\.truststore"):
            exchange(client, server)
        with pytest.raises(TlsError, match="alert unknown ca"):
            server.receive(client.outgoing())


class TestClientCertificates:
    def settings(self, identity):
        return {"certificate_chain": identity.certificate, "private_key": identity.key}

    @pytest.mark.parametrize("wish", ["requested", "required"])
    def test_it_is_given_to_the_server(self, wish):
        client, server = connected(
            self.settings(client_identity()), {"client_auth": wish, "trusted": authority().certificate}
        )
        assert server.peer_certificate == client.context.certificate

    def test_a_requested_one_may_be_missing(self):
        _, server = connected(None, {"client_auth": "requested", "trusted": authority().certificate})
        assert server.peer_certificate is None

    @pytest.mark.parametrize(
        ("identity", "why"),
        [
            (None, "peer did not return a certificate"),
            (lambda: foreign_authority().identity("mallory", ()), "unable to get|self.signed"),
        ],
    )
    def test_a_missing_or_foreign_one_is_refused(self, identity, why):
        client = TlsSession(client_context(**(self.settings(identity()) if identity else {})), "localhost")
        server = TlsSession(server_context(client_auth="required", trusted=authority().certificate))
        with pytest.raises(TlsError, match=why):
            exchange(client, server)

    def test_a_resumed_session_has_it(self):
        """By Python's client, which keeps tickets."""
        server_side = server_context(client_auth="required", trusted=authority().certificate)
        identity = client_identity()
        ours = TlsContext(server=False, **self.settings(identity)).certificate
        peer = python_client(identity)
        server = TlsSession(server_side)
        shake_hands(peer, server)
        again = python_client(identity, session=peer.session)
        resumed = TlsSession(server_side)
        shake_hands(again, resumed)
        assert again.session_reused
        assert resumed.resumed
        assert not server.resumed
        assert resumed.peer_certificate == ours


class TestResumption:
    """A client context keeps tickets for the next handshakes with the same peer."""

    def handshake(self, client_side, server_side, peer="localhost:9092", host="localhost"):
        client, server = TlsSession(client_side, host, peer), TlsSession(server_side)
        exchange(client, server)
        server.send(b"the ticket comes with it")
        exchange(client, server)
        assert client.resumed == server.resumed
        return client.resumed

    @pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
    def test_later_handshakes_resume(self, version):
        client_side, server_side = client_context(protocols=[version]), server_context()
        resumed = [self.handshake(client_side, server_side) for _ in range(4)]
        assert resumed == [False, True, True, True]

    def test_a_ticket_is_used_once(self):
        client_side, server_side = client_context(), server_context()
        self.handshake(client_side, server_side)
        both = [
            (TlsSession(client_side, "localhost", "localhost:9092"), TlsSession(server_side)) for _ in "ab"
        ]
        for client, server in both:
            exchange(client, server)
        assert [client.resumed for client, _ in both] == [True, False]

    @pytest.mark.parametrize("other", [{"peer": "localhost:9093"}, {"host": "127.0.0.1"}, {"peer": None}])
    def test_another_peer_or_host_has_its_own(self, other):
        client_side, server_side = client_context(), server_context()
        self.handshake(client_side, server_side)
        assert not self.handshake(client_side, server_side, **other)
        assert self.handshake(client_side, server_side)

    def test_another_context_has_its_own(self):
        server_side = server_context()
        self.handshake(client_context(), server_side)
        assert not self.handshake(client_context(), server_side)

    def test_a_server_without_the_key_of_the_ticket_gets_a_full_handshake(self):
        client_side = client_context()
        self.handshake(client_side, server_context())
        restarted = server_context()
        assert not self.handshake(client_side, restarted)
        assert self.handshake(client_side, restarted)

    def test_the_last_tickets_are_kept(self):
        client_side, server_side = client_context(), server_context()
        kept = 64
        for port in range(kept + 1):
            self.handshake(client_side, server_side, peer=f"localhost:{port}")
        assert self.handshake(client_side, server_side, peer=f"localhost:{kept}")
        assert not self.handshake(client_side, server_side, peer="localhost:0")

    def after_the_end(self, begin):
        """Calls `begin` with an identity that is about to expire, and waits until it has."""
        while True:
            ends = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(seconds=2)
            valid_for = ends - datetime.datetime.now(datetime.UTC) + DAY
            try:
                made = begin(authority().identity("short", ("localhost",), valid_for=valid_for))
            except TlsError:  # the machine was slow
                continue
            gone = ends + datetime.timedelta(seconds=1)
            wait_until(lambda: datetime.datetime.now(datetime.UTC) > gone, "the certificate's end")  # noqa: B023
            return made

    def test_a_session_with_an_expired_server_is_not_resumed(self):
        client_side = client_context()

        def begin(identity):
            server_side = server_context(identity)
            assert not self.handshake(client_side, server_side)
            assert self.handshake(client_side, server_side)
            return server_side

        server_side = self.after_the_end(begin)
        with pytest.raises(TlsError, match="certificate has expired"):
            self.handshake(client_side, server_side)

    def test_an_expired_client_does_not_resume(self):
        server_side = server_context(client_auth="required", trusted=authority().certificate)

        def begin(identity):
            settings = {"certificate_chain": identity.certificate, "private_key": identity.key}
            client_side = client_context(**settings)
            assert not self.handshake(client_side, server_side)
            assert self.handshake(client_side, server_side)
            return client_side

        client_side = self.after_the_end(begin)
        with pytest.raises(TlsError, match="resumed session has expired"):
            self.handshake(client_side, server_side)
        with pytest.raises(TlsError, match="certificate has expired"):
            self.handshake(client_side, server_side)

    def test_streams_outlive_their_context(self):
        client, server = (
            TlsSession(client_context(), "localhost", "localhost:9092"),
            TlsSession(server_context()),
        )
        exchange(client, server)
        capsule = client.release()
        del client
        server.send(b"x")
        assert server.outgoing()
        del capsule

    def test_the_servers_certificate_stays_known(self):
        client_side, server_side = client_context(), server_context()
        self.handshake(client_side, server_side)
        client, server = TlsSession(client_side, "localhost", "localhost:9092"), TlsSession(server_side)
        exchange(client, server)
        assert client.resumed
        assert client.peer_certificate == server_side.certificate


# ---------------------------------------------------------------- Python's ssl as the client


class PythonPeer:
    """Python's ssl, by memory."""

    def __init__(self, context, *, server_side=False, host=None, session=None):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(
            self.incoming, self.outgoing, server_side=server_side, server_hostname=host, session=session
        )

    @property
    def session(self):
        return self.object.session

    @property
    def session_reused(self):
        return self.object.session_reused


_CONTEXTS: dict = {}


def python_client(identity=None, session=None, host="localhost"):
    context = _CONTEXTS.setdefault(identity, None) or python_context(identity)
    _CONTEXTS[identity] = context
    return PythonPeer(context, host=host, session=session)


def shake_hands(peer: PythonPeer, ours: TlsSession, *, step: int = 1 << 16):
    """Both sides of a handshake, and the tickets after it."""
    for _ in range(4):
        try:
            peer.object.do_handshake()
            peer.object.read(1)
        except ssl.SSLWantReadError:
            pass
        sent = peer.outgoing.read()
        for at in range(0, len(sent), step):
            ours.receive(sent[at : at + step])
        peer.incoming.write(ours.outgoing())


class TestWithPythonsSsl:
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_a_python_client(self, version):
        context = python_context()
        context.minimum_version = context.maximum_version = version
        peer, server = PythonPeer(context, host="localhost"), TlsSession(server_context())
        shake_hands(peer, server)
        peer.object.write(b"question")
        assert server.receive(peer.outgoing.read()) == b"question"
        server.send(b"answer")
        peer.incoming.write(server.outgoing())
        assert peer.object.read(100) == b"answer"
        assert peer.object.version() == server.version

    def test_a_python_server(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_identity(context, server_identity())
        peer, client = (
            PythonPeer(context, server_side=True),
            TlsSession(client_context(), "localhost"),
        )
        peer.incoming.write(client.outgoing())
        shake_hands(peer, client)
        client.send(b"hello")
        peer.incoming.write(client.outgoing())
        assert peer.object.read(5) == b"hello"

    @pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
    @pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
    def test_old_versions_are_refused(self, version):
        context = python_context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion[version]
        peer, server = PythonPeer(context, host="localhost"), TlsSession(server_context())
        with pytest.raises(TlsError, match=r"protocol.*ssl\.enabled\.protocols"):
            shake_hands(peer, server)

    def test_weak_ciphers_are_refused(self):
        context = python_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0")
        peer, server = PythonPeer(context, host="localhost"), TlsSession(server_context())
        with pytest.raises(TlsError, match="no shared cipher"):
            shake_hands(peer, server)

    @pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10\0\x12\0\3" + bytes(12)])
    def test_plain_text_is_refused(self, garbage):
        with pytest.raises(TlsError, match=r"no TLS|HTTP"):
            TlsSession(server_context()).receive(garbage)

    def test_a_changed_record_is_refused(self):
        client, server = connected()
        client.send(b"x" * 100)
        sent = bytearray(client.outgoing())
        sent[50] ^= 1
        with pytest.raises(TlsError, match=r"bad record mac|decryption failed"):
            server.receive(sent)

    def test_an_oversized_record_is_refused(self):
        _, server = connected()
        with pytest.raises(TlsError):
            server.receive(b"\x17\x03\x03\xff\xff" + bytes(65535))


class TestContext:
    def test_what_is_offered(self):
        assert server_context().ciphers == [
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ]
        assert server_context().protocols == ("TLSv1.2", "TLSv1.3")

    @pytest.mark.parametrize(
        ("names", "versions"),
        [
            (["TLS_AES_256_GCM_SHA384"], ("TLSv1.3",)),
            (["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], ("TLSv1.2",)),
            (["TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"], ("TLSv1.2", "TLSv1.3")),
        ],
    )
    def test_chosen_ciphers(self, names, versions):
        context = server_context(ciphers=names)
        assert context.protocols == versions
        client, server = TlsSession(client_context(), "localhost"), TlsSession(context)
        exchange(client, server)
        assert client.version == versions[-1]

    @pytest.mark.parametrize(
        ("settings", "why"),
        [
            ({"protocols": ["TLSv1.1"]}, "TLSv1.1' is not offered"),
            ({"protocols": []}, "empty"),
            ({"ciphers": ["TLS_NULL_WITH_NULL_NULL"]}, "unknown, or too weak"),
            ({"ciphers": ["ALL"], "protocols": ["TLSv1.3"]}, "no cipher of"),
            ({"ciphers": ["aNULL"]}, "unknown, or too weak"),
            ({"client_auth": "maybe"}, "must be none, requested or required"),
            ({"client_auth": "required"}, "ssl.truststore.location"),
            ({"trusted": b"nothing"}, "trust store has no certificate"),
            (
                {"trusted": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
                "certificate 1 of",
            ),
        ],
    )
    def test_bad_settings(self, settings, why):
        with pytest.raises(TlsError, match=why):
            server_context(**settings)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"private_key": lambda: authority().identity().key}, "does not belong to the certificate"),
            ({"private_key": lambda: b"garbage"}, "there is no private key"),
            (
                {"private_key": lambda: b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
                "unreadable",
            ),
            ({"private_key": lambda: server_identity().encrypted_key("secret")}, "give its password"),
            (
                {
                    "private_key": lambda: server_identity().encrypted_key("secret"),
                    "key_password": lambda: "wrong",
                },
                "check its password",
            ),
            ({"private_key": lambda: None}, "needs its private key"),
            ({"private_key": lambda: None, "certificate_chain": lambda: None}, "needs a certificate"),
        ],
    )
    def test_bad_keys(self, change, why):
        identity = server_identity()
        given = {"certificate_chain": identity.certificate, "private_key": identity.key}
        given |= {name: make() for name, make in change.items()}
        with pytest.raises(TlsError, match=why) as caught:
            TlsContext(server=True, **given)
        assert "secret" not in str(caught.value)
        assert "wrong" not in str(caught.value)

    def test_an_encrypted_key(self):
        identity = server_identity()
        TlsContext(
            server=True,
            certificate_chain=identity.certificate,
            private_key=identity.encrypted_key("secret"),
            key_password="secret",
        )

    @pytest.mark.parametrize(
        ("valid_from", "why"), [(-400 * DAY, "expired on 2"), (DAY, "not valid before 2")]
    )
    def test_dates(self, valid_from: datetime.timedelta, why):
        identity = authority().identity(valid_from=valid_from)
        with pytest.raises(TlsError, match=why):
            TlsContext(server=True, certificate_chain=identity.certificate, private_key=identity.key)

    def test_key_and_chain_in_one_text_in_any_order(self):
        identity = server_identity()
        both = authority().certificate + identity.key + identity.certificate
        context = TlsContext(server=True, certificate_chain=both, private_key=both)
        exchange(client := TlsSession(client_context(), "localhost"), TlsSession(context))
        assert client.established


def test_a_released_session_is_of_no_use():
    client, _ = connected()
    assert "bowstring.tls.stream" in repr(client.release())
    with pytest.raises(TlsError, match="handed over"):
        client.outgoing()


class _Memory(ctypes.Structure):
    """glibc's mallinfo2."""

    _fields_ = [(f"before_{number}", ctypes.c_size_t) for number in range(7)] + [
        ("used_bytes", ctypes.c_size_t),
        ("free_bytes", ctypes.c_size_t),
        ("top_bytes", ctypes.c_size_t),
    ]


def test_idle_sessions_keep_no_buffers_of_records():
    """Records of one call share a buffer, which OpenSSL gives back after the last."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("needs glibc 2.33")
    libc.mallinfo2.restype = _Memory
    pairs = [connected() for _ in range(20)]
    before = libc.mallinfo2().used_bytes
    for client, server in pairs:
        client.send(bytes(70_000))
        server.send(bytes(70_000))
        assert exchange(client, server) == (bytes(70_000), bytes(70_000))
    assert (libc.mallinfo2().used_bytes - before) / len(pairs) < 4096
