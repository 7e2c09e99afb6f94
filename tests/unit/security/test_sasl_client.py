"""The client's side of SASL mechanisms."""

import json

import pytest

from bowstring.security.sasl_client import OAuthBearerClient, PlainClient, SaslError, ScramExchange


def test_plain_sends_user_and_password():
    client = PlainClient("alice", "pässword")
    assert client.first() == b"\0alice\0p\xc3\xa4ssword"
    assert client.next(b"") is None and client.is_done
    with pytest.raises(SaslError):
        client.next(b"challenge")


def test_scram_as_in_rfc_7677():
    client = ScramExchange("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.next(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not client.is_done
    assert client.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.is_done


def test_scram_refuses_a_server_without_the_password():
    client = ScramExchange("SCRAM-SHA-256", "user", "pencil", nonce="abc")
    client.first()
    client.next(b"r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslError, match="does not prove"):
        client.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert not client.is_done


def test_scram_of_a_delegation_token_says_so():
    client = ScramExchange("SCRAM-SHA-512", "id", "hmac", token_auth=True, nonce="abc")
    assert client.first() == b"n,,n=id,r=abc,tokenauth=true"


def test_a_bearer_token_and_its_extensions():
    client = OAuthBearerClient(lambda: "a.b.c", {"logicalCluster": "lkc-1"})
    assert client.first() == b"n,,\1auth=Bearer a.b.c\1logicalCluster=lkc-1\1\1"
    assert client.next(b"") is None
    assert client.next(json.dumps({"status": "invalid_token", "scope": "write"}).encode()) == b"\1"
    assert client.refusal == "invalid_token (scope write)"


@pytest.mark.parametrize("name", ["auth", "a-b", ""])
def test_invalid_extensions_are_refused(name):
    with pytest.raises(SaslError, match="extension"):
        OAuthBearerClient(lambda: "a", {name: "x"})


def test_a_token_that_is_none_is_not_sent():
    with pytest.raises(SaslError, match="RFC 6750") as raised:
        OAuthBearerClient(lambda: "se\1cret").first()
    assert "se" not in str(raised.value).replace("bearer", "").split()
