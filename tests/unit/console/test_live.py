"""Streams of events: what a page shows while the cluster is slow, gone, and back."""

import asyncio
import json

import pytest
from starlette.requests import Request

from bowstring.clients.errors import ClientError
from bowstring.console import live as live_module
from bowstring.console.app import create_app
from bowstring.console.live import live
from bowstring.console.options import ConsoleOptions


@pytest.fixture
def request_of_a_page():
    """A request to the console, whose cluster nobody asks."""
    app = create_app(ConsoleOptions())
    yield Request({"type": "http", "app": app, "state": {"browser": "someone"}, "headers": []})
    app.state.sessions.close()


async def next_event(events):
    """Returns name and content of the next event."""
    async for text in events:
        if text.startswith("event: "):
            name, _, data = text.removeprefix("event: ").partition("\ndata: ")
            return name, json.loads(data)
    return None


def test_a_cluster_that_does_not_answer_is_named_before_the_answer_comes(request_of_a_page, monkeypatch):
    monkeypatch.setattr(live_module, "SLOW_S", 0.0)

    async def look():
        answered = asyncio.Event()

        async def render():
            await answered.wait()
            return {"lag": "12"}

        events = live(request_of_a_page, render, 0.0).body_iterator
        name, content = await next_event(events)
        assert name == "trouble" and "does not answer" in content["message"]
        answered.set()
        assert await next_event(events) == ("parts", {"lag": "12"})
        await events.aclose()

    asyncio.run(look())


def test_an_answer_that_comes_back_unchanged_ends_the_notice(request_of_a_page):
    async def look():
        answers = iter([{"lag": "12"}, ClientError("cannot reach a broker"), {"lag": "12"}])

        async def render():
            answer = next(answers)
            if isinstance(answer, ClientError):
                raise answer
            return answer

        events = live(request_of_a_page, render, 0.0).body_iterator
        assert await next_event(events) == ("parts", {"lag": "12"})
        assert await next_event(events) == ("trouble", {"message": "cannot reach a broker"})
        assert await next_event(events) == ("parts", {})
        await events.aclose()

    asyncio.run(look())


def test_a_page_that_is_left_ends_what_it_waits_for(request_of_a_page, monkeypatch):
    monkeypatch.setattr(live_module, "SLOW_S", 0.0)

    async def look():
        ended = asyncio.Event()

        async def render():
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return {}

        events = live(request_of_a_page, render, 0.0).body_iterator
        assert (await next_event(events))[0] == "trouble"
        await events.aclose()
        await asyncio.wait_for(ended.wait(), 60)
        assert not request_of_a_page.app.state.live_streams

    asyncio.run(look())
