"""The client's side of GSSAPI, with a context of the test's, and its settings."""

import sys

import pytest

from bowstring.security.client_settings import ClientSecurity, SecuritySettingsError
from bowstring.security.gssapi_client import GssapiClient
from bowstring.security.kerberos import KerberosError
from bowstring.security.sasl_client import SaslError
from tests.support.gss_contexts import FakeContext

OFFER, CHOICE = b"<\1\0\0\0>", b"<\1\0\0\0>"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


def client(error=None):
    return GssapiClient(lambda: FakeContext([b"", b"reply"], [b"request", b""], error=error), "kafka@host")


def test_an_exchange():
    gssapi = client()
    assert gssapi.first() == b"request"
    assert gssapi.next(b"reply") == b""
    assert gssapi.next(OFFER) == CHOICE
    assert gssapi.is_done and gssapi.next(b"") is None
    with pytest.raises(SaslError, match="after the end"):
        gssapi.next(b"more")


@pytest.mark.parametrize("offer", [b"<\6\0\0\0>", b"<>", b"<\1\0\0\0more>", b"", b"\1\0\0\0"])
def test_offers_without_plain_messages_are_refused(offer):
    gssapi = client()
    gssapi.first()
    gssapi.next(b"reply")
    with pytest.raises(SaslError):
        gssapi.next(offer)
    assert not gssapi.is_done


def test_a_layer_is_not_taken_but_may_be_offered():
    gssapi = client()
    gssapi.first()
    gssapi.next(b"reply")
    assert gssapi.next(b"<\7\0\1\0>") == CHOICE


@pytest.mark.parametrize(
    ("code", "cure", "retriable"),
    [
        (6, "check sasl.kerberos.principal", False),
        (7, "check sasl.kerberos.service.name", False),
        (32, "run kinit again", False),
        (37, "clock", False),
        (141, "run kinit, or give sasl.kerberos.keytab", False),
        (156, "its KDC can be reached", True),
        (-1, "kafka@host: why$", False),
    ],
)
def test_errors_say_what_to_do(code, cure, retriable):
    with pytest.raises(SaslError, match=cure) as raised:
        client(KerberosError("why", code)).first()
    assert raised.value.retriable == retriable


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.jaas.config": f"{MODULE} required;"}, "no credentials"),
        ({"sasl.jaas.config": f"{MODULE} required useKeyTab=true;"}, "needs keyTab"),
        (
            {"sasl.jaas.config": f"{MODULE} required useTicketCache=true isInitiator=false;"},
            "isInitiator=false",
        ),
        (
            {
                "sasl.jaas.config": f"{MODULE} required useTicketCache=true serviceName=a;",
                "sasl.kerberos.service.name": "b",
            },
            "serviceName is a, but",
        ),
        (
            {
                "sasl.jaas.config": f"{MODULE} required useTicketCache=true principal=a;",
                "sasl.kerberos.principal": "b",
            },
            "different values",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{MODULE} required;"}, "login module of GSSAPI"),
    ],
)
def test_settings_that_cannot_work(settings, words):
    with pytest.raises(SecuritySettingsError, match=words):
        ClientSecurity.of({"security.protocol": "SASL_PLAINTEXT"} | settings)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(SecuritySettingsError, match=r"pip install 'bowstring\[gssapi\]'"):
        ClientSecurity.of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})
