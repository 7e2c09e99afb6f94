"""Requests that browsers do not send: long numbers, paths out of the folder, names with line ends, mistakes."""

import asyncio
import threading

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from bowstring.console import live as live_module
from bowstring.console.app import create_app
from bowstring.console.cluster_access import ADMINS_MAX, OTHERS_MAX, THREADS, ClusterAccess
from bowstring.console.guard import HEADERS
from bowstring.console.live import STREAMS_OF_ONE, live
from bowstring.console.options import ConsoleOptions
from bowstring.console.pages import message_tails, messages, overview
from bowstring.console.rendering import quoted
from bowstring.console.sessions import Sessions

OPTIONS = ConsoleOptions("127.0.0.1:1", timeout_s=0.2)


@pytest.fixture(scope="module")
def client():
    app = create_app(OPTIONS)
    with TestClient(
        app, base_url="http://localhost:8080", follow_redirects=False, raise_server_exceptions=False
    ) as made:
        yield made


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/console.css%00",
        "/brokers/" + "9" * 5000,
        "/topics/a/messages/0/" + "9" * 5000 + "/value",
        "/topics/a/messages/" + "9" * 5000 + "/0/key",
        "/topics/a/messages/export/exe",
    ],
)
def test_there_is_no_such_page(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("name", ["a\r\nset-cookie: x=1", "//example.org", "ü\x00", 'a;b="c"'])
def test_names_do_not_leave_their_header(client, name):
    answer = client.get(f"/groups/{quoted(name)}")
    if "\n" not in name:  # there is no such group
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/groups/one?name={quoted(name)}"
    assert "x" not in answer.cookies
    file = messages.attachment(b"", "text/plain", name)
    assert file.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quoted(name)}"


@pytest.mark.parametrize("query", ["expr=" + "(" * 5000, "partition=" + "1," * 9000, "next=" + "1:1," * 9000])
def test_long_queries_are_answered(client, query):
    assert client.get(f"/topics/a/messages?{query}").status_code in (400, 502)


def test_a_mistake_shows_nothing_of_the_inside(client, monkeypatch):
    async def fail(access):
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(overview, "summary_of", fail)
    answer = client.get("/")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text and "Traceback" not in answer.text
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


# ---------------------------------------------------------------- what one session may take


@pytest.fixture
def sessions():
    made = Sessions(OPTIONS)
    yield made
    made.close()


def test_one_session_leaves_threads_to_the_others(sessions):
    assert 2 * (ADMINS_MAX + OTHERS_MAX) < THREADS

    async def work():
        greedy, other = (ClusterAccess(OPTIONS, name, None, sessions.threads) for name in "ab")
        go_on = threading.Event()
        running = [asyncio.ensure_future(greedy.thread(go_on.wait, 60)) for _ in range(5 * THREADS)]
        await asyncio.sleep(0)
        try:
            assert await asyncio.wait_for(other.thread(lambda: "served"), 30) == "served"
        finally:
            go_on.set()
        await asyncio.gather(*running)

    asyncio.run(work())


def test_a_call_that_nobody_waits_for_keeps_its_slot(sessions):
    async def work():
        access = ClusterAccess(OPTIONS, "a", None, sessions.threads)
        go_on, begun = threading.Event(), []

        def slow():
            begun.append(1)
            go_on.wait(60)

        for _ in range(3 * OTHERS_MAX):
            left = asyncio.ensure_future(access.thread(slow))
            await asyncio.sleep(0)
            left.cancel()
            await asyncio.wait([left])
        assert len(begun) <= OTHERS_MAX
        go_on.set()
        assert await access.thread(lambda: "served") == "served"

    asyncio.run(work())


def request_of(app, browser):
    return Request({"type": "http", "app": app, "state": {"browser": browser}, "headers": []})


def test_one_session_does_not_take_all_live_streams():
    app = create_app(OPTIONS)

    async def work():
        async def render():
            return {"a": "b"}

        async def open_one(browser):
            events = live(request_of(app, browser), render, 60.0).body_iterator
            await anext(events)
            return events

        opened = [await open_one("greedy") for _ in range(STREAMS_OF_ONE)]
        with pytest.raises(HTTPException):
            await open_one("greedy")
        opened.append(await open_one("other"))
        for events in opened:
            await events.aclose()
        assert not app.state.live_streams
        assert STREAMS_OF_ONE * 2 < live_module.STREAMS_MAX

    asyncio.run(work())
    app.state.sessions.close()


def test_a_tail_whose_browser_left_before_it_began_is_not_counted():
    app = create_app(OPTIONS)

    async def work():
        request = request_of(app, "someone")
        request.scope |= {"path_params": {"name": "t"}, "query_string": b""}
        for _ in range(3 * message_tails.TAILS_MAX):
            await message_tails.follow_tail(request)  # answers, and is never sent

    asyncio.run(work())
    app.state.sessions.close()
