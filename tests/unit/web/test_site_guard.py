"""bowstring.web.site_guard: browsers may not be used by pages of other sites; programs may do as they like."""

import asyncio

import pytest

from bowstring.web.site_guard import SiteGuard


def status_of(method, *, is_local=True, **headers):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent = []

    async def send(message):
        sent.append(message)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "headers": pairs}
    asyncio.run(SiteGuard(app, is_local=is_local)(scope, None, send))
    return sent[0]["status"]


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
