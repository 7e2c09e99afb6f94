"""bowstring.web.site_guard: browsers may not be used by pages of other sites; programs may do as they like."""

import asyncio

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.web.listening import Listening
from bowstring.web.site_guard import SiteGuard


def status_of(method, *, is_local=True, **headers):
    return answer_of(method, is_local=is_local, **headers)["status"]


def answer_of(method, *, is_local=True, allowed=(), **headers):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"vary", b"accept")]})

    sent = []

    async def send(message):
        sent.append(message)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "headers": pairs}
    asyncio.run(SiteGuard(app, is_local=is_local, allowed_origins=allowed)(scope, None, send))
    return sent[0]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_programs_name_this_machine_as_they_like(method):
    assert status_of(method, host="registry.internal:8081") == 200
    assert status_of(method) == 200


def test_pages_of_this_site_and_typed_addresses_are_served():
    assert (
        status_of("POST", host="localhost:1", origin="http://localhost:1", sec_fetch_site="same-origin")
        == 200
    )
    assert status_of("GET", host="127.0.0.1:1", sec_fetch_site="none") == 200
    assert status_of("GET", host="[::1]:1", sec_fetch_site="cross-site") == 200, "a link may lead here"


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:2", "null", "http://[", "x"])
def test_pages_of_other_sites_are_refused(origin):
    for method in ("GET", "POST"):
        assert status_of(method, host="localhost:1", origin=origin) == 403
    assert status_of("POST", host="localhost:1", sec_fetch_site="cross-site") == 403


def test_a_name_that_resolves_to_this_machine_is_refused():
    rebound = {"host": "evil.example:1", "origin": "http://evil.example:1"}
    assert status_of("POST", **rebound) == 421
    assert status_of("GET", host="evil.example:1", sec_fetch_site="same-origin") == 421
    assert status_of("GET", host="//[", sec_fetch_site="none") == 421
    assert status_of("POST", is_local=False, **rebound) == 200


APP = "https://app.example.org"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_pages_of_an_allowed_origin_may_call(method):
    asked = {"host": "localhost:1", "origin": APP, "sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}
    if method == "POST":
        asked["content_type"] = "application/json"
    found = answer_of(method, allowed=[APP], **asked)
    headers = [each for each in found["headers"] if each[0].startswith(b"access-control")]
    assert found["status"] == 200
    assert (b"access-control-allow-origin", APP.encode()) in headers
    assert (b"vary", b"origin") in found["headers"] and (b"vary", b"accept") in found["headers"]
    assert not any(name == b"access-control-allow-credentials" for name, _ in headers)
    assert answer_of(method, allowed=["https://other.example"], **asked)["status"] == 403


def test_a_preflight_is_answered_for_allowed_origins_only():
    asked = {"host": "localhost:1", "origin": APP, "access_control_request_method": "PUT"}
    found = answer_of("OPTIONS", allowed=[APP], **asked)
    headers = dict(found["headers"])
    assert found["status"] == 204 and b"PUT" in headers[b"access-control-allow-methods"]
    assert b"authorization" in headers[b"access-control-allow-headers"]
    assert answer_of("OPTIONS", **asked)["status"] == 403


def test_all_origins_may_be_allowed_but_not_a_rebound_name():
    found = answer_of("GET", allowed=["*"], host="localhost:1", origin="null")
    assert dict(found["headers"])[b"access-control-allow-origin"] == b"*"
    rebound = {"host": "evil.example:1", "origin": "http://evil.example:1"}
    assert answer_of("GET", allowed=["*"], **rebound)["status"] == 421


def test_pages_of_this_site_need_no_headers_but_caches_keep_answers_apart():
    for origin in ({"origin": "http://localhost:1"}, {}):
        for allowed in (APP, "*"):
            found = answer_of("GET", allowed=[allowed], host="localhost:1", **origin)
            assert (b"vary", b"origin") in found["headers"]
            is_open = b"access-control-allow-origin" in dict(found["headers"])
            assert is_open == (allowed == "*" and bool(origin))
    assert answer_of("GET", host="localhost:1")["headers"] == [(b"vary", b"accept")]
    for method in ("POST", "PUT"):
        own = {"host": "localhost:1", "origin": "http://localhost:1"}
        assert answer_of(method, allowed=["*"], **own)["status"] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_type": "text/plain"},
        {"content_type": " Text/Plain;application/json"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data; boundary=a"},
        {"content_type": "application/json", "sec_fetch_mode": "no-cors"},
        {"content_type": "application/json", "sec_fetch_mode": "navigate"},
    ],
)
@pytest.mark.parametrize("origin", [APP, "null"])
def test_what_browsers_send_without_a_preflight_may_not_write(headers, origin):
    asked = {"host": "reg:1", "origin": origin, "sec_fetch_site": "cross-site"}
    for each in (asked, {name: value for name, value in asked.items() if name != "sec_fetch_site"}):
        found = answer_of("POST", is_local=False, allowed=[APP, "*"], **each, **headers)
        assert found["status"] == 403
        assert answer_of("GET", is_local=False, allowed=[APP, "*"], **each, **headers)["status"] == 200
    # Another scheme, or another port that the browser leaves out, is another site.
    same = {"host": "reg:1", "origin": "http://reg:1", "sec_fetch_site": "cross-site"}
    assert answer_of("POST", is_local=False, allowed=["*"], **same, **headers)["status"] == 403


def test_pages_of_all_sites_and_certificates_of_clients_exclude_each_other():
    tls = {"tls_certificate": "a", "tls_key": "b", "tls_client_authorities": "c"}
    for wanted in ("requested", "required"):
        with pytest.raises(ConfigError, match="name the origins"):
            Listening(0, **tls, client_certificates=wanted, allowed_origins=(APP, "*")).check()
        Listening(0, **tls, client_certificates=wanted, allowed_origins=(APP,)).check()


@pytest.mark.parametrize(
    "origin", ["app.example.org", "https://a/b", "https://a,b", "null", "ftp://a", "https://*.a"]
)
def test_wrong_origins_are_refused(origin):
    with pytest.raises(ConfigError, match="--allow-origin"):
        Listening(0, allowed_origins=(origin,)).check()
    Listening(0, allowed_origins=(APP, "http://localhost:3000", "https://[::1]:1", "*")).check()
