"""Logins step by step, without a connection."""

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from bowstring.security.login import Login, LoginError
from bowstring.security.sasl_client import PlainClient, ScramExchange

VERSIONS = {17: (0, 1), 36: (0, 2)}


def login_of(sasl=None, versions=VERSIONS):
    return Login(sasl or PlainClient("alice", "secret-1"), versions, peer="kafka:9093")


def test_a_login_and_its_lifetime():
    login = login_of()
    first = login.first()
    assert (type(first.body), first.version, first.body.mechanism) == (SaslHandshakeRequest, 1, "PLAIN")
    second = login.next(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert (type(second.body), second.version) == (SaslAuthenticateRequest, 2)
    assert second.body.auth_bytes == b"\0alice\0secret-1"
    assert login.next(SaslAuthenticateResponse(session_lifetime_ms=10_000)) is None
    assert login.lifetime_ms == 10_000
    assert login.reauthenticate_after_s(0.0) == 8.5
    assert login.reauthenticate_after_s(0.999) < 9.5


def test_a_session_without_an_end():
    login = login_of()
    login.next(SaslHandshakeResponse())
    login.next(SaslAuthenticateResponse())
    assert login.reauthenticate_after_s(0.5) is None


def test_old_brokers_have_earlier_versions():
    assert login_of(versions={17: (0, 1), 36: (0, 0)}).next(SaslHandshakeResponse()).version == 0


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (
            SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256", "OAUTHBEARER"]),
            ["kafka:9093", "PLAIN, but SCRAM-SHA-256, OAUTHBEARER", "sasl.mechanism"],
        ),
        (SaslHandshakeResponse(error_code=34), ["ILLEGAL_SASL_STATE", "security.protocol"]),
        (
            SaslAuthenticateResponse(error_code=58, error_message="Authentication failed"),
            ["kafka:9093", "Authentication failed", "SASL_AUTHENTICATION_FAILED", "user name and password"],
        ),
        (SaslAuthenticateResponse(auth_bytes=b"more"), ["PLAIN with kafka:9093 failed"]),
    ],
)
def test_refusals_say_what_to_check(response, words):
    login = login_of()
    with pytest.raises(LoginError) as raised:
        login.next(response)
    assert all(word in str(raised.value) for word in words), raised.value
    assert "secret-1" not in str(raised.value)
    assert not raised.value.retriable


def test_a_peer_without_sasl_is_named():
    with pytest.raises(LoginError, match=r"kafka:9093 does not offer SASL: check security\.protocol"):
        login_of(versions={}).first()


def test_a_server_that_ends_the_exchange_early_is_refused():
    login = login_of(ScramExchange("SCRAM-SHA-256", "alice", "x", nonce="abc"))
    login.next(SaslHandshakeResponse())
    with pytest.raises(LoginError, match="malformed"):
        login.next(SaslAuthenticateResponse(session_lifetime_ms=1))


def test_errors_have_kafkas_codes():
    login = login_of()
    with pytest.raises(LoginError) as raised:
        login.next(SaslAuthenticateResponse(error_code=Errors.SASL_AUTHENTICATION_FAILED.code))
    assert raised.value.error_code == 58
