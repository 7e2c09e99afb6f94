"""What stands before every page: Host, Origin, cookies, headers. No cluster is contacted."""

import asyncio

import pytest
from starlette.testclient import TestClient

from bowstring.clients.errors import ConfigError
from bowstring.console.app import create_app
from bowstring.console.guard import HEADERS, SIGN_IN_BYTES_MAX
from bowstring.console.options import ConsoleOptions

NOWHERE = "127.0.0.1:1"


def client_of(**options):
    app = create_app(ConsoleOptions(bootstrap_servers=NOWHERE, timeout_s=0.2, **options))
    return TestClient(app, base_url="http://localhost:8080", follow_redirects=False)


@pytest.fixture(scope="module")
def client():
    with client_of() as made:
        yield made


def test_pages_have_headers_of_protection(client):
    answer = client.get("/nothing")
    assert answer.status_code == 404
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:8080", "[::1]:8080"])
def test_names_of_this_machine_are_served(client, host):
    assert client.get("/static/console.css", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "localhost.example.org:8080", "", "["]
)
def test_other_names_are_refused(client, host):
    assert client.get("/static/console.css", headers={"host": host}).status_code == 421


def test_the_cookie_is_for_this_site_and_not_for_scripts():
    with client_of() as client:
        cookie = client.get("/nothing").headers["set-cookie"]
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert "set-cookie" not in client.get("/nothing").headers


def test_the_cookie_is_secure_with_https():
    app = create_app(ConsoleOptions(bootstrap_servers=NOWHERE))
    with TestClient(app, base_url="https://localhost") as client:
        cookie = client.get("/nothing").headers["set-cookie"]
        assert cookie.startswith("__Host-")
        assert "; Secure" in cookie


@pytest.mark.parametrize(
    "headers", [{"origin": "https://example.org"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_changes_from_other_sites_are_refused(client, headers):
    assert client.post("/theme", data={"theme": "dark"}, headers=headers).status_code == 403


def test_forms_without_a_token_are_refused(client):
    assert client.post("/theme", data={"theme": "dark"}).status_code == 403
    assert client.post("/theme", data={"theme": "dark", "csrf_token": "0" * 64}).status_code == 403


def test_large_forms_are_refused(client):
    assert client.post("/theme", content=b"", headers={"content-length": str(1 << 30)}).status_code == 413


def test_a_length_is_worth_nothing_beside_chunks(client):
    headers = {"content-length": "5", "transfer-encoding": "chunked"}
    assert client.post("/theme", content=b"", headers=headers).status_code == 413


def test_who_has_not_signed_in_sends_small_forms_only():
    headers = {"content-length": str(SIGN_IN_BYTES_MAX + 1)}
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with client_of(sign_in=True, security=security) as client:
        assert client.post("/sign-in", content=b"", headers=headers).status_code == 413
        assert client.post("/sign-in", data={"name": "a"}).status_code == 403, "it has no token"


def test_a_form_that_does_not_arrive_is_refused(monkeypatch):
    monkeypatch.setattr("bowstring.console.guard.BODY_S", 0.01)
    monkeypatch.setattr("bowstring.console.guard.BODIES_BYTES_MAX", 200)
    app = create_app(ConsoleOptions(bootstrap_servers=NOWHERE))

    def answered(*parts):
        """Returns the status of the answer to a form of which only these parts come."""
        left, sent = list(parts), []

        async def receive():
            if not left:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": left.pop(0), "more_body": True}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/theme",
            "raw_path": b"/theme",
            "query_string": b"",
            "headers": [
                (b"host", b"localhost:8080"),
                (b"content-type", b"application/x-www-form-urlencoded"),
                (b"content-length", b"2000"),
            ],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 8080),
            "scheme": "http",
            "app": app,
        }
        asyncio.run(app(scope, receive, send))
        return sent[0]["status"]

    assert answered(b"theme=dark") == 408
    assert answered(b"y" * 80, b"y" * 80) == 503
    assert answered(b"y" * 80) == 408, "the others are over"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"listen": "0.0.0.0"}, "--sign-in"),
        ({"sign_in": True}, "SASL"),
        ({"sign_in": True, "security": {"security.protocol": "SASL_PLAINTEXT"}}, "sasl.mechanism"),
        ({"tls_key": "key.pem"}, "--tls-certificate"),
    ],
)
def test_options_that_contradict_are_refused(options, word):
    with pytest.raises(ConfigError, match=word):
        ConsoleOptions(**options).check()


def test_an_open_address_needs_a_word():
    ConsoleOptions(listen="0.0.0.0", listen_unauthenticated=True).check()
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    ConsoleOptions(listen="0.0.0.0", sign_in=True, security=security).check()
