"""bowstring.web.limits: bodies and rates are bounded."""

import asyncio

import pytest

from bowstring.web.http_error import HttpError
from bowstring.web.limits import DisconnectedError, RateLimit, read_body


def body_of(messages, bytes_max=10, headers=()):
    left = list(messages)

    async def receive():
        return left.pop(0)

    return asyncio.run(read_body({"headers": list(headers)}, receive, bytes_max))


def part(body, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def test_parts_are_joined():
    assert body_of([part(b"ab", True), part(b"", True), part(b"cd")]) == b"abcd"
    assert body_of([part(b"0123456789")]) == b"0123456789"


@pytest.mark.parametrize(
    "messages",
    [
        [part(b"0123456789a")],
        [part(b"01234", True), part(b"56789a", True), part(b"endless", True)],
        [part(b"0123456789", True), part(b"a")],
    ],
)
def test_a_body_that_is_too_large_is_refused(messages):
    with pytest.raises(HttpError) as refusal:
        body_of(messages)
    assert refusal.value.status == 413


@pytest.mark.parametrize(("length", "status"), [(b"11", 413), (b"-1", 400), (b"1e3", 400), (b"9" * 30, 400)])
def test_a_wrong_length_is_refused_before_the_body_is_read(length, status):
    with pytest.raises(HttpError) as refusal:
        body_of([], headers=[(b"content-length", length)])
    assert refusal.value.status == status


def test_a_client_that_leaves_is_no_error_of_the_program():
    with pytest.raises(DisconnectedError):
        body_of([part(b"a", True), {"type": "http.disconnect"}])


def test_each_client_has_its_own_rate(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("bowstring.web.limits.time.monotonic", lambda: now[0])
    limit = RateLimit(2, burst=2)
    limit.take("a")
    limit.take("a")
    with pytest.raises(HttpError) as refusal:
        limit.take("a")
    assert refusal.value.status == 429
    assert dict(refusal.value.headers)[b"retry-after"] == b"1"
    limit.take("b")
    now[0] += 0.5
    limit.take("a")
    with pytest.raises(HttpError):
        limit.take("a")


def test_no_rate_is_no_bound():
    limit = RateLimit(0)
    for _ in range(100):
        limit.take("a")


def test_a_body_that_does_not_come_is_refused(monkeypatch):
    monkeypatch.setattr("bowstring.web.limits.BODY_S", 0.01)

    async def receive():
        await asyncio.Event().wait()

    with pytest.raises(HttpError) as refusal:
        asyncio.run(read_body({"headers": []}, receive, 10))
    assert (refusal.value.status, dict(refusal.value.headers)) == (408, {b"connection": b"close"})
