"""bowstring.rest.callers: how many there are, and when their clients are closed."""

import asyncio

import pytest

from bowstring.clients.errors import ClosedError
from bowstring.rest.callers import FETCHES_HELD, Callers
from bowstring.rest.options import RestOptions
from bowstring.web.http_error import HttpError


def run(program, **options):
    """Runs `program(callers)`."""

    async def main():
        callers = Callers(RestOptions("localhost:1", **options))
        await program(callers)
        await callers.close()

    asyncio.run(main())


@pytest.fixture
def now(monkeypatch):
    """The time, which a test may change."""
    time = [1000.0]
    monkeypatch.setattr("bowstring.rest.callers.time.monotonic", lambda: time[0])
    return time


def test_one_caller_for_each_fingerprint():
    async def program(callers):
        alice = callers.find("a", "alice", {"sasl.password": "a-secret"})
        assert callers.find("a", "alice", {}) is alice
        assert callers.find("b", "bob", {}) is not alice
        assert "a-secret" not in repr(alice)
        callers.forget("a")
        assert callers.find("a", "alice", {}) is not alice

    run(program)


def test_those_used_least_recently_make_room(now):
    async def program(callers):
        first, second = callers.find("a", "alice", {}), callers.find("b", "bob", {})
        now[0] += 60
        assert callers.find("a", "alice", {}) is first
        callers.find("c", "carol", {})  # instead of bob
        assert callers.find("a", "alice", {}) is first
        with pytest.raises(HttpError) as refusal:
            callers.find("b", "bob", {})
        assert refusal.value.status == 503
        now[0] += 60
        assert callers.find("b", "bob", {}) is not second

    run(program, callers_max=2)


def test_silent_callers_are_closed_but_not_those_with_a_stream(now):
    async def program(callers):
        silent, reading = callers.find("a", "alice", {}), callers.find("b", "bob", {})
        callers.open_stream(reading)
        now[0] += 700
        callers.end_idle()
        assert callers.find("b", "bob", {}) is reading
        assert callers.find("a", "alice", {}) is not silent
        callers.close_stream(reading)
        await asyncio.to_thread(silent.close)  # after the one that end_idle has begun
        with pytest.raises(ClosedError):
            silent.producer()

    run(program)


def test_streams_of_one_user_and_of_all():
    async def program(callers):
        alice, everybody = callers.find("a", "alice", {}), callers.find("", None, {})
        for _ in range(2):
            callers.open_stream(alice)
        with pytest.raises(HttpError):
            callers.open_stream(alice)
        for _ in range(3):
            callers.open_stream(everybody)
        with pytest.raises(HttpError) as refusal:
            callers.open_stream(everybody)
        assert refusal.value.status == 429

    run(program, streams_of_one=2, streams_max=5)


def test_consumer_instances_of_one_user_and_of_all(now):
    async def program(callers):
        alice, everybody = callers.find("a", "alice", {}), callers.find("", None, {})
        callers.open_consumer(alice)
        with pytest.raises(HttpError):
            callers.open_consumer(alice)
        callers.open_consumer(everybody)
        with pytest.raises(HttpError) as refusal:
            callers.open_consumer(everybody)
        assert refusal.value.status == 429
        now[0] += 700
        callers.end_idle()
        assert callers.find("a", "alice", {}) is alice
        callers.close_consumer(alice)
        ended = []
        alice.endings.append(lambda: ended.append(alice))
        now[0] += 700
        callers.end_idle()
        assert ended == [alice]

    run(program, consumers_of_one=1, consumers_max=2)


@pytest.mark.parametrize("most", [1, 20, 100, 400])
def test_streams_of_records_share_their_memory(most):
    async def main():
        callers = Callers(RestOptions(streams_max=most, streams_of_one=most))
        caller = callers.find("", None, None)
        taken = []
        for _ in range(most):
            callers.open_stream(caller)
            taken.append(callers.take_fetch_bytes())
        assert taken[0] == callers.options.fetch_bytes and min(taken) >= 64 << 10
        assert FETCHES_HELD * sum(taken) <= callers.options.read_memory
        for each in taken:
            callers.return_fetch_bytes(each)
            callers.close_stream(caller)
        callers.open_stream(caller)
        assert callers.take_fetch_bytes() == callers.options.fetch_bytes
        await callers.close()

    asyncio.run(main())
