"""bowstring.web.credentials: what a request says about its sender, and how it is checked."""

import asyncio
import base64
import json

import pytest

from bowstring.clients.errors import AuthenticationError, ClientError
from bowstring.web.credentials import (
    FAILURES_MAX,
    Credentials,
    LogIns,
    client_settings,
    credentials_of,
    network_of,
    subject_of,
)
from bowstring.web.http_error import HttpError

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "own"}


def basic(text):
    return b"Basic " + base64.b64encode(text.encode())


def of(*values):
    return credentials_of({"headers": [(b"authorization", value) for value in values]})


def test_basic_bearer_and_certificates_are_read():
    assert of(basic("ann:se:cret")) == Credentials("basic", "ann", "se:cret")
    assert of(b"bearer  abc.def.ghi") == Credentials("bearer", "", "abc.def.ghi")
    assert of() is None
    scope = {"headers": [], "extensions": {"tls": {"client_cert_name": "CN=a"}}}
    assert credentials_of(scope) == Credentials("certificate", "CN=a")


@pytest.mark.parametrize(
    "value",
    [b"", b"Basic", b"Basic ???", basic("no colon"), basic(":x"), b"Digest x", b"Bearer \xff", b"a" * 99999],
)
def test_what_cannot_be_read_is_answered_with_401(value):
    with pytest.raises(HttpError) as refusal:
        of(value)
    assert refusal.value.status == 401
    with pytest.raises(HttpError):
        of(basic("a:b"), basic("c:d"))


def test_secrets_are_not_shown():
    assert "se:cret" not in repr(of(basic("ann:se:cret")))


def test_clients_act_as_the_user_and_not_as_the_program():
    settings = client_settings(SASL | {"sasl.password": "own"}, Credentials("basic", "ann", "x"))
    assert settings == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "x",
    }
    settings = client_settings(SASL, Credentials("bearer", "", "t.o.k"))
    assert settings["sasl.mechanism"] == "OAUTHBEARER"
    assert "sasl.username" not in settings
    for base, credentials in (
        ({}, Credentials("basic", "a", "b")),
        (SASL, Credentials("certificate", "CN=a")),
    ):
        with pytest.raises(HttpError):
            client_settings(base, credentials)


def test_a_log_in_is_checked_once_and_shared():
    calls = []

    def check(credentials):
        calls.append(credentials.user)
        return credentials.user

    async def main():
        log_ins = LogIns("", SASL, check)
        who = Credentials("basic", "ann", "x")
        assert await asyncio.gather(*(log_ins.user(who, "::1") for _ in range(5))) == ["ann"] * 5
        assert await log_ins.user(who, "::1") == "ann"
        log_ins.close()

    asyncio.run(main())
    assert calls == ["ann"]


def test_refusals_count_by_address():
    calls = []

    def check(credentials):
        calls.append(credentials)
        raise AuthenticationError("broker", "refused")

    async def status(log_ins, user, address):
        with pytest.raises(HttpError) as refusal:
            await log_ins.user(Credentials("basic", user, "x"), address)
        return refusal.value.status

    async def main():
        log_ins = LogIns("", SASL, check)
        assert await status(log_ins, "a", "1.1.1.1") == 401
        assert await status(log_ins, "a", "1.1.1.1") == 401
        assert len(calls) == 1
        for number in range(FAILURES_MAX):
            await status(log_ins, f"u{number}", "1.1.1.1")
        assert await status(log_ins, "other", "1.1.1.1") == 429
        assert await status(log_ins, "other", "2.2.2.2") == 401
        log_ins.close()

    asyncio.run(main())


def test_a_broker_that_does_not_answer_is_not_a_refusal():
    def check(credentials):
        raise ClientError("no broker answers")

    async def main():
        log_ins = LogIns("", SASL, check)
        with pytest.raises(HttpError) as refusal:
            await log_ins.user(Credentials("basic", "a", "x"), "")
        assert refusal.value.status == 503
        log_ins.close()

    asyncio.run(main())


def test_names_of_tokens_and_networks():
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "ann"}).encode()).rstrip(b"=").decode()
    assert subject_of(f"x.{claims}.y") == "ann"
    assert [subject_of(each) for each in ("", "a.b.c", "..", f"x.{'W1' * 50000}.y")] == [""] * 4
    assert network_of("2001:db8::1") == network_of("2001:db8::2") == "2001:db8::/64"
    assert network_of("") == ""
