"""Connections authenticate: PLAIN and SCRAM, right and wrong, again, and out of turn."""

import asyncio
from base64 import b64decode

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.security.authentication import Authentication
from bowstring.engine.security.sasl_mechanisms import Credentials
from bowstring.engine.security.sasl_scram import TokenLogin
from bowstring.protocol import decode_response, encode
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest
from bowstring.security.scram import SCRAM_SHA_256, ScramClient, new_credential

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="s2";'
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.outer.plain.sasl.jaas.config": USERS,
    "connection.failed.authentication.delay.ms": "0",
}
OUTER = Listener("OUTER", "", 9092, "SASL_PLAINTEXT")
ALICE = new_credential(SCRAM_SHA_256, "secret")
NOW_MS = 1_000_000
TOKEN = TokenLogin(new_credential(SCRAM_SHA_256, "hmac"), "owner", NOW_MS + 5000)
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism"


class Message:
    peer = "10.1.2.3:4567"
    listener = 0
    principal = "User:ANONYMOUS"
    connection_id = 7
    correlation_id = 3
    slot = 0

    def __init__(self, key, version, body):
        self.api_key, self.api_version, self.body = key, version, body


class Connection:
    """Stands for the data plane and for a client of it."""

    def __init__(self, find={"alice": ALICE}.get, **settings):
        self.admitted = []
        self.replies = []
        self.closed = False
        self.decoys = 0
        self.order = []
        self.configs = BrokerConfigs(
            SETTINGS | {name.replace("__", "."): text for name, text in settings.items()}
        )
        self.authentication = Authentication(
            self.configs,
            [OUTER],
            self,
            Credentials(
                lambda mechanism: find if mechanism is SCRAM_SHA_256 else {}.get,
                lambda mechanism: {"t1": TOKEN}.get,
                self.decoys_of,
            ),
            clock=lambda: NOW_MS,
        )

    def decoys_of(self, mechanism):
        def find(name, is_token):
            self.decoys += 1
            return new_credential(mechanism, f"no one's password {is_token}", salt=name.encode())

        return find

    def reply(self, connection_id, slot, payload):
        self.replies.append(payload)
        self.closed |= payload is None
        self.order.append("reply")

    def finish(self, connection_id):
        self.closed = True
        self.order.append("finish")

    def admit(self, connection_id, principal, *, lifetime_ms=0):
        self.admitted.append((principal, lifetime_ms))

    def send(self, key, version, body):
        """Returns the answer; None when the connection is closed instead."""

        async def take():
            self.authentication.take(Message(key, version, body))
            while not self.replies:
                await asyncio.sleep(0)

        asyncio.run(take())
        payload = self.replies.pop()
        return payload if payload is None or version < 0 else decode_response(key, version, payload)[1]

    def handshake(self, mechanism, version=1):
        return self.send(17, version, encode(SaslHandshakeRequest(mechanism=mechanism), version))

    def token(self, data, version=2):
        return self.send(36, version, encode(SaslAuthenticateRequest(auth_bytes=data), version))

    def plain(self, name, password, authorization=""):
        assert self.handshake("PLAIN").error_code == 0
        return self.token(f"{authorization}\0{name}\0{password}".encode())

    def scram(self, name, password, *, token=False):
        client = ScramClient(SCRAM_SHA_256, name, password, token=token)
        assert self.handshake("SCRAM-SHA-256").error_code == 0
        challenge = self.token(client.first())
        if challenge.error_code:
            return challenge
        last = self.token(client.final(challenge.auth_bytes))
        if not last.error_code:
            client.verify(last.auth_bytes)
        return last


def test_plain():
    connection = Connection()
    assert connection.plain("alice", "secret").error_code == 0
    assert connection.admitted == [("User:alice", 0)] and not connection.closed


@pytest.mark.parametrize(
    ("name", "password", "authorization"),
    [
        ("alice", "s2", ""),
        ("nobody", "secret", ""),
        ("alice", "secret", "bob"),
        ("", "x", ""),
        ("alice", "", ""),
    ],
)
def test_wrong_plain(name, password, authorization):
    connection = Connection()
    answer = connection.plain(name, password, authorization)
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED.code
    assert connection.closed and not connection.admitted and connection.authentication.failures == 1
    assert "secret" not in answer.error_message


def test_unknown_and_known_names_get_the_same_answer():
    assert Connection().plain("alice", "x") == Connection().plain("nobody", "x")
    assert Connection().scram("alice", "x") == Connection().scram("nobody", "x")


@pytest.mark.parametrize("data", [b"", b"alice", b"\0alice", b"\0a\0b\0c", b"\xff\0\xff"])
def test_malformed_plain(data):
    connection = Connection()
    connection.handshake("PLAIN")
    assert connection.token(data).error_code == Errors.SASL_AUTHENTICATION_FAILED.code
    assert connection.closed and not connection.admitted


def test_scram():
    connection = Connection()
    assert connection.scram("alice", "secret").error_code == 0
    assert connection.admitted == [("User:alice", 0)]


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", "secret"), ("bob", "s2")])
def test_wrong_scram(name, password):
    connection = Connection()
    answer = connection.scram(name, password)
    assert answer.error_message == f"{GENERIC} SCRAM-SHA-256"
    assert connection.closed and not connection.admitted


def test_a_decoy_stands_for_an_unknown_name_and_is_made_for_known_ones():
    connection = Connection()
    for name in ("nobody", "alice"):
        assert connection.handshake("SCRAM-SHA-256").error_code == 0
        challenge = connection.token(f"n,,n={name},r=x".encode()).auth_bytes
        salt = b64decode(challenge.split(b",s=")[1].split(b",")[0])
        assert salt == (b"nobody" if name == "nobody" else ALICE.salt)
        connection.authentication.ended([Message.connection_id])
    assert connection.decoys == 2


def test_a_proof_of_another_exchange():
    connection = Connection()
    client = ScramClient(SCRAM_SHA_256, "alice", "secret")
    connection.handshake("SCRAM-SHA-256")
    final = client.final(connection.token(client.first()).auth_bytes)
    again = Connection()
    again.handshake("SCRAM-SHA-256")
    again.token(client.first())
    assert again.token(final).error_code == Errors.SASL_AUTHENTICATION_FAILED.code
    assert again.closed and not again.admitted


def test_a_delegation_token_acts_as_its_owner():
    connection = Connection()
    assert connection.scram("t1", "hmac", token=True).session_lifetime_ms == 5000
    assert connection.admitted == [("User:owner", 5000)]
    assert connection.authentication.has_token(Message.connection_id)
    assert Connection().scram("t2", "hmac", token=True).error_code
    assert Connection().scram("t1", "hmac").error_code


def test_unknown_mechanisms():
    connection = Connection()
    answer = connection.handshake("GSSAPI")
    assert answer.error_code == Errors.UNSUPPORTED_SASL_MECHANISM.code
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert connection.closed


def test_requests_out_of_turn():
    connection = Connection()
    assert connection.token(b"\0alice\0secret") is None and connection.closed
    connection = Connection()
    assert connection.send(36, -1, b"\0alice\0secret") is None
    connection = Connection()
    assert connection.send(17, 1, b"\x00\xffx") is None
    assert not connection.admitted


def test_tokens_without_headers():
    connection = Connection()
    connection.handshake("PLAIN", version=0)
    assert connection.send(36, -1, b"\0alice\0secret") == b""
    assert connection.admitted == [("User:alice", 0)]
    connection = Connection()
    connection.handshake("PLAIN", version=0)
    assert connection.send(36, -1, b"\0alice\0wrong") is None and connection.closed


def test_sessions_end():
    connection = Connection(connections__max__reauth__ms="60000")
    assert connection.plain("alice", "secret").session_lifetime_ms == 60000
    assert connection.admitted == [("User:alice", 60000)]
    connection = Connection(connections__max__reauth__ms="1000")
    assert connection.scram("t1", "hmac", token=True).session_lifetime_ms == 1000


def test_authenticating_again():
    connection = Connection()
    connection.plain("alice", "secret")
    assert connection.plain("alice", "secret").error_code == 0
    assert connection.admitted == [("User:alice", 0)] * 2
    answer = connection.plain("bob", "s2")
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert connection.closed and len(connection.admitted) == 2


def test_another_mechanism_the_second_time():
    connection = Connection()
    connection.plain("alice", "secret")
    answer = connection.scram("alice", "secret")
    assert "is not supported for re-authentication of mechanism 'PLAIN'" in answer.error_message
    assert connection.closed


def test_ended_connections_are_forgotten():
    connection = Connection()
    connection.handshake("PLAIN")
    assert len(connection.authentication) == 1
    connection.authentication.ended([Message.connection_id, 99])
    assert len(connection.authentication) == 0


def test_changed_users_hold_for_later_handshakes():
    connection = Connection()
    configs = connection.configs
    configs.set_dynamic(
        {"listener.name.outer.plain.sasl.jaas.config": USERS.replace("secret", "changed")}, {}
    )
    assert connection.plain("alice", "changed").error_code == 0
    configs.set_dynamic({"listener.name.outer.plain.sasl.jaas.config": "malformed"}, {})
    assert connection.plain("alice", "changed").error_code == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "offers GSSAPI and has no keytab; set listener.name.outer"),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "DIGEST-MD5 is not a mechanism"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "set sasl.oauthbearer.expected.issuer, or accept"),
        ({"sasl.enabled.mechanisms": ""}, "no SASL mechanism; set sasl.enabled.mechanisms"),
        (
            {"sasl.enabled.mechanisms": "PLAIN"},
            "offers PLAIN and has no users; set listener.name.outer.plain",
        ),
        (
            {"listener.name.outer.plain.sasl.jaas.config": 'P required user_x="secret"'},
            "listener.name.outer.plain.sasl.jaas.config: the options of P do not end",
        ),
        (
            {"listener.name.outer.plain.sasl.jaas.config": 'x.ScramLoginModule required user_x="secret";'},
            "has the login module ScramLoginModule; PLAIN needs PlainLoginModule",
        ),
    ],
)
def test_settings_that_cannot_work(settings, message):
    configs = BrokerConfigs({"sasl.enabled.mechanisms": "PLAIN"} | settings)
    with pytest.raises(ConfigError, match=message) as caught:
        Authentication(configs, [OUTER], None, Credentials(*[lambda _: {}.get] * 3))
    assert "secret" not in str(caught.value)


def test_a_jaas_line_of_all_listeners_counts_for_its_mechanism():
    configs = BrokerConfigs({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": USERS})
    Authentication(configs, [OUTER], None, Credentials(*[lambda _: {}.get] * 3))


def test_a_mechanism_that_is_taken_away_during_a_log_in():
    connection, name = Connection(), "listener.name.outer.sasl.enabled.mechanisms"
    assert connection.handshake("PLAIN").error_code == 0
    connection.configs.dynamic_broker = {name: "SCRAM-SHA-256"}
    other = Message(17, 1, encode(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))
    other.connection_id = 8
    connection.authentication.take(other)
    connection.replies.clear()
    assert connection.token(b"\0alice\0secret").error_code == 0
    assert connection.admitted == [("User:alice", 0)]


def test_a_bug_closes_the_connection_and_is_logged(caplog):
    def broken(name):
        raise RuntimeError("broken")

    connection = Connection(find=broken)
    assert connection.handshake("SCRAM-SHA-256").error_code == 0
    assert connection.token(ScramClient(SCRAM_SHA_256, "alice", "secret").first()) is None
    assert connection.closed and connection.admitted == [] and len(connection.authentication) == 0
    assert "RuntimeError" in caplog.text


def test_a_refused_connection_ends_before_its_client_has_the_answer():
    connection = Connection()
    assert connection.plain("alice", "wrong").error_code == Errors.SASL_AUTHENTICATION_FAILED.code
    assert connection.order[-2:] == ["finish", "reply"]


def test_a_second_handshake_before_the_end_of_the_first():
    connection = Connection()
    assert connection.handshake("SCRAM-SHA-256").error_code == 0
    assert connection.handshake("SCRAM-SHA-256").error_code == Errors.ILLEGAL_SASL_STATE.code
    assert connection.closed
