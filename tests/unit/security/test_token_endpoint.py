"""The client-credentials grant (RFC 6749, 4.4) with a real HTTP server."""

import base64
import json
import logging
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time

import pytest

from bowstring.security import oauth_tokens
from bowstring.security.client_settings import ClientSecurity
from bowstring.security.oauth_tokens import ClientCredentials, TokenSource, TokenUnavailableError
from tests.support.certificates import authority, foreign_authority
from tests.support.secure_broker import server_context
from tests.support.waiting import wait_until

SECRET = "s3cret/of+the=client"


class Endpoint(ThreadingHTTPServer):
    """Answers with `status`, `headers` and `body`; `asked` has the authorization and form of each request."""

    daemon_threads = True

    def __init__(self, tls=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.headers, self.drips = 200, {}, False
        self.body = json.dumps({"access_token": "t-1", "expires_in": 3600})
        self.asked = []
        self.over = threading.Event()
        self.scheme = "http"
        if tls is not None:
            self.scheme = "https"
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"{self.scheme}://localhost:{self.server_address[1]}/token"

    def handle_error(self, request, address):
        """A client that does not trust the endpoint has gone."""

    def close(self):
        self.over.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        server.asked.append((self.headers["Authorization"], dict(urllib.parse.parse_qsl(form))))
        self.send_response(server.status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if server.drips:
            while not server.over.wait(0.02):
                self.wfile.write(b" ")
        self.wfile.write(server.body.encode())

    do_GET = do_POST

    def log_message(self, *arguments):
        """Says nothing."""


@pytest.fixture
def endpoint(request):
    made = Endpoint(server_context() if hasattr(request, "param") else None)
    yield made
    made.close()


def source(endpoint, **more):
    return TokenSource(ClientCredentials(endpoint.url, "client-7", SECRET, **more))


def error_of(endpoint, **more):
    with pytest.raises(TokenUnavailableError) as caught:
        source(endpoint, **more).token()
    assert SECRET not in str(caught.value) and base64.b64encode(SECRET.encode()).decode() not in str(
        caught.value
    )
    return str(caught.value)


def test_what_is_requested(endpoint):
    """Client id and secret in the header, never in the form (RFC 6749, 2.3.1); one token for all."""
    tokens = source(endpoint, scope="read write")
    assert [tokens.token() for _ in range(3)] == ["t-1"] * 3
    ((authorization, form),) = endpoint.asked
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == f"client-7:{SECRET}"
    assert form == {"grant_type": "client_credentials", "scope": "read write"}


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (400, '{"error": "invalid_scope"}', "answers 400 invalid_scope: check client id, secret and scope"),
        (401, '{"error": "invalid_client", "error_description": "no"}', "answers 401 invalid_client"),
        (401, "Unauthorized", "answers 401 Unauthorized"),
        (500, "", "answers 500 Internal Server Error"),
        (503, "[" * 100_000, "answers 503"),
        (400, json.dumps({"error": "x\ny" + "z" * 10_000}), "answers 400 'x"),
        (200, "", "has no access_token"),
        (200, "{", "has no access_token"),
        (200, "[" * 100_000, "has no access_token"),
        (200, '["access_token"]', "has no access_token"),
        (200, '{"access_token": 5, "expires_in": 60}', "has no access_token"),
        (200, '{"access_token": ""}', "has no access_token"),
        (200, '{"access_token": "t", "expires_in": "soon"}', "expires_in that is no number"),
        (200, '{"access_token": "t", "expires_in": -1}', "has expired"),
    ],
)
def test_what_the_endpoint_answers(endpoint, status, body, why):
    endpoint.status, endpoint.body = status, body
    told = error_of(endpoint)
    assert why in told and len(told) < 400 and "\n" not in told


def test_a_redirect_gets_no_secret(endpoint):
    other = Endpoint()
    endpoint.status, endpoint.headers = 307, {"Location": other.url}
    assert "answers 307" in error_of(endpoint)
    assert other.asked == []
    other.close()


def test_an_answer_that_never_ends(endpoint):
    """Each byte comes in time; the whole does not."""
    endpoint.drips = True
    assert "has not answered within 0.3 s" in error_of(endpoint, timeout_s=0.3)


def test_an_endpoint_that_does_not_listen(endpoint):
    url = endpoint.url
    endpoint.close()
    with pytest.raises(TokenUnavailableError, match=r"cannot reach the token endpoint .*refused"):
        ClientCredentials(url, "client-7", SECRET)()


def test_tokens_are_renewed_before_their_end(endpoint, monkeypatch):
    """The old one is used until the new one is there; a failure keeps it."""
    now = time()
    monkeypatch.setattr(oauth_tokens.time, "time", lambda: now)
    tokens = source(endpoint)
    assert tokens.token() == "t-1"
    now += 3600 * 0.79
    assert tokens.token() == "t-1" and len(endpoint.asked) == 1
    now += 3600 * 0.02
    endpoint.status = 500
    assert tokens.token() == "t-1"
    wait_until(lambda: len(endpoint.asked) == 2 and not tokens._renewing)
    endpoint.status = 200
    endpoint.body = json.dumps({"access_token": "t-2", "expires_in": 3600})
    now += oauth_tokens.ENDS_SOON_S + 1
    assert tokens.token() == "t-1"
    wait_until(lambda: tokens.token() == "t-2")
    assert len(endpoint.asked) == 3


def settings(endpoint, **more):
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.oauthbearer.client.id": "client-7",
        "sasl.oauthbearer.client.secret": SECRET,
        **more,
    }


@pytest.mark.parametrize("endpoint", ["tls"], indirect=True)
def test_tls_to_the_endpoint_with_its_own_authority(endpoint):
    """`https.ca.pem` is for the endpoint alone; another authority, and the system's, refuse it."""

    def first_message(**more):
        return ClientSecurity.of(settings(endpoint, **more)).new_sasl("localhost").first()

    assert b"Bearer t-1" in first_message(**{"https.ca.pem": authority().certificate.decode()})
    for refuses in ({"https.ca.pem": foreign_authority().certificate.decode()}, {}):
        with pytest.raises(TokenUnavailableError, match="certificate verify failed"):
            first_message(**refuses)
    assert len(endpoint.asked) == 1


def test_without_tls_a_warning_names_the_risk(endpoint, caplog):
    with caplog.at_level(logging.WARNING):
        source(endpoint)
    assert "has no TLS" in caplog.text and SECRET not in caplog.text
