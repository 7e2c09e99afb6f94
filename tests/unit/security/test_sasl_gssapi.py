"""The server's side of GSSAPI, with a context of the test's, and its settings."""

import sys

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.security.kerberos_rules import KerberosRules
from bowstring.engine.security.sasl_gssapi import GssapiServer, gssapi_server
from bowstring.engine.security.sasl_server import AuthenticationFailedError
from bowstring.security.jaas import parse_login
from bowstring.security.kerberos import CLOCK_SKEW, REPLAY, KerberosError
from tests.support.gss_contexts import FakeContext

OFFER, CHOICE = b"<\1\0\0\0>", b"<\1\0\0\0>"
LINE = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    'keyTab="{keytab}" principal="kafka/localhost@REALM.COM";'
)


def server(expected=(b"request",), answers=(b"reply",), rules=("DEFAULT",), **context):
    names = KerberosRules(rules, "REALM.COM")
    return GssapiServer(FakeContext(expected, answers, **context), names.name_of)


def test_with_mutual_authentication_the_client_takes_a_turn_without_a_token():
    gssapi = server()
    assert gssapi.step(b"request") == b"reply"
    assert gssapi.step(b"") == OFFER
    assert not gssapi.is_complete
    assert gssapi.step(CHOICE) is None
    assert gssapi.is_complete and gssapi.name == "alice" and gssapi.expires_ms is None


def test_without_it_the_offer_comes_at_once():
    gssapi = server(answers=[b""])
    assert gssapi.step(b"request") == OFFER
    gssapi.step(CHOICE)
    assert gssapi.is_complete


def test_several_rounds():
    gssapi = server([b"1", b"2"], [b"", b"3"])
    assert [gssapi.step(each) for each in (b"1", b"2", b"")] == [b"", b"3", OFFER]


@pytest.mark.parametrize("choice", [b"<\1\1\1\1>", b"<\3\0\0\0>"])
def test_sizes_do_not_count_nor_further_layers(choice):
    """As in Kafka: it only asks whether the choice has a layer that it offers."""
    gssapi = server(answers=[b""])
    gssapi.step(b"request")
    gssapi.step(choice)
    assert gssapi.is_complete


def test_the_name_a_client_wants_to_act_as_does_not_count():
    gssapi = server(answers=[b""])
    gssapi.step(b"request")
    gssapi.step(b"<\1\0\0\0admin>")
    assert gssapi.name == "alice"


@pytest.mark.parametrize(
    "choice", [b"<\2\0\1\0>", b"<\4\0\1\0>", b"<\0\0\0\0>", b"<\1\0\0>", b"<>", b"\1\0\0\0", b""]
)
def test_other_choices_are_refused(choice):
    gssapi = server(answers=[b""])
    gssapi.step(b"request")
    with pytest.raises(AuthenticationFailedError) as raised:
        gssapi.step(choice)
    assert not gssapi.is_complete and raised.value.answer is None and not raised.value.closes


@pytest.mark.parametrize("tokens", [[b"other"], [b""], [b"request", b"more"]])
def test_tokens_out_of_turn(tokens):
    gssapi = server()
    with pytest.raises(AuthenticationFailedError):
        for each in tokens:
            gssapi.step(each)


def test_principals_without_a_name():
    gssapi = server(answers=[b""], peer="alice@OTHER.COM")
    gssapi.step(b"request")
    with pytest.raises(AuthenticationFailedError, match=r"no rule of .* applies to alice@OTHER.COM"):
        gssapi.step(CHOICE)
    assert not gssapi.is_complete and not gssapi.name


@pytest.mark.parametrize(
    ("code", "closes"), [(REPLAY, True), (33, True), (CLOCK_SKEW, False), (32, False), (-1, False)]
)
def test_after_errors_that_pass_the_client_may_try_again(code, closes):
    with pytest.raises(AuthenticationFailedError, match="Kerberos refuses the client: why") as raised:
        server(error=KerberosError("why", code)).step(b"request")
    assert raised.value.closes == closes


@pytest.mark.parametrize(
    ("line", "settings", "message"),
    [
        (None, {}, "has no keytab; set listener.name.k.gssapi.sasl.jaas.config"),
        (LINE, {}, "set sasl.kerberos.service.name, for example to kafka"),
        (LINE.replace(";", " serviceName=a;"), {"sasl.kerberos.service.name": "b"}, "serviceName is a, but"),
        ("x.Krb5LoginModule required;", {}, "no credentials: set useKeyTab=true"),
        ("x.Krb5LoginModule required useKeyTab=true;", {}, "useKeyTab=true needs keyTab"),
        ("x.Krb5LoginModule required useTicketCache=true serviceName=kafka;", {}, "a broker needs useKeyTab"),
        (
            'x.Krb5LoginModule required useKeyTab=true keyTab="x" serviceName=kafka;',
            {},
            "principal is missing",
        ),
    ],
)
def test_settings_that_cannot_work(line, settings, message):
    with pytest.raises(ConfigError, match=message):
        gssapi_server(BrokerConfigs(settings), "K", None if line is None else parse_login(line))


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    line = LINE.format(keytab=tmp_path / "x.keytab")
    with pytest.raises(ConfigError, match=r"listener K .*pip install 'bowstring\[gssapi\]'.*libkrb5-dev"):
        gssapi_server(BrokerConfigs({"sasl.kerberos.service.name": "kafka"}), "K", parse_login(line))
