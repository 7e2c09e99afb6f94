"""SCRAM, with the example of RFC 7677."""

from base64 import b64decode

import pytest

from bowstring.security.scram import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    ScramClient,
    ScramError,
    is_proof,
    new_credential,
    parse_client_final,
    parse_client_first,
    sasl_name,
    server_final,
    server_first,
)

NONCE = "rOprNGfwEbeRWgbNEkqO"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = f"n,,n=user,r={NONCE}".encode()
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
FINAL = (
    f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()
PROOF_OF_SERVER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_client_of_the_rfc():
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=NONCE)
    assert client.first() == FIRST
    assert client.final(CHALLENGE) == FINAL
    client.verify(PROOF_OF_SERVER)


def test_the_server_of_the_rfc():
    credential = new_credential(SCRAM_SHA_256, "pencil", salt=SALT)
    first, final = parse_client_first(FIRST), parse_client_final(FINAL)
    challenge = server_first(final.nonce, credential)
    assert (first.name, final.channel, challenge.encode()) == ("user", b"n,,", CHALLENGE)
    messages = f"{first.bare},{challenge},{final.bare}"
    assert is_proof(SCRAM_SHA_256, credential, final.proof, messages)
    assert not is_proof(SCRAM_SHA_256, credential, final.proof[:-1] + b"x", messages)
    assert not is_proof(SCRAM_SHA_256, credential, final.proof[:-1], messages)
    assert server_final(SCRAM_SHA_256, credential, messages) == PROOF_OF_SERVER


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["a=b,c", "zoë", "=2C", "a b"])
def test_names_and_passwords_survive(mechanism, name):
    credential = new_credential(mechanism, "pass=wörd,")
    client = ScramClient(mechanism, name, "pass=wörd,", token=True)
    first = parse_client_first(client.first())
    assert (first.name, first.token_authenticated) == (name, True)
    challenge = server_first(first.nonce + "more", credential)
    final = parse_client_final(client.final(challenge.encode()))
    messages = f"{first.bare},{challenge},{final.bare}"
    assert is_proof(mechanism, credential, final.proof, messages)
    client.verify(server_final(mechanism, credential, messages))
    with pytest.raises(ScramError, match="does not prove"):
        client.verify(server_final(mechanism, new_credential(mechanism, "another"), messages))


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,", b"n,,n=user", b"n,,n=,r=x", b"y,,n=u,r=x", b"p=tls,,n=u,r=x", b"n,,n=a=b,r=x", b"\xff" * 9],
)
def test_malformed_first_messages(message):
    with pytest.raises(ScramError):
        parse_client_first(message)


@pytest.mark.parametrize("message", [b"", b"c=biws,r=x", b"c=b,r=x,p=aaaa", b"c=biws,r=x,p=a", FINAL + b","])
def test_malformed_last_messages(message):
    with pytest.raises(ScramError):
        parse_client_final(message)


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"nonsense", "malformed"),
        (CHALLENGE.replace(b"r=rO", b"r=Ro"), "another exchange"),
        (f"r={NONCE},s=AAAA,i=4096".encode(), "another exchange"),
        (CHALLENGE.replace(b"4096", b"4095"), "4095 iterations"),
        (CHALLENGE.replace(b"4096", b"100000000"), "iterations"),
    ],
)
def test_refused_challenges(challenge, why):
    with pytest.raises(ScramError, match=why):
        ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=NONCE).final(challenge)


def test_an_error_of_the_server():
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=NONCE)
    client.final(CHALLENGE)
    with pytest.raises(ScramError, match="refuses the name or the password"):
        client.verify(b"e=invalid-proof")


def test_nothing_secret_is_shown():
    client = ScramClient(SCRAM_SHA_256, "user", "pencil")
    credential = new_credential(SCRAM_SHA_256, "pencil")
    assert repr(client) == "ScramClient(SCRAM-SHA-256)"
    assert repr(credential) == "ScramCredential(4096 iterations)"
    assert sasl_name("a,=") == "a=2C=3D"
