"""Nothing that fails in the background is lost."""

import asyncio
import logging

import pytest

from bowstring.engine import background
from tests.support.waiting import pause_async, wait_until_async


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO, logger="bowstring")
    return caplog


async def fails(*_):
    raise ValueError("a bug")


def test_a_task_that_fails_logs_its_traceback(log):
    async def main():
        among = set()
        task = background.spawn(fails(), "some work", among=among)
        assert among == {task}
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert not among

    asyncio.run(main())
    assert "Traceback" in log.text and "ValueError: a bug" in log.text
    assert log.records[0].facts["task"] == "some work"


def test_a_task_that_is_cancelled_or_ends_logs_nothing(log):
    async def main():
        tasks = [background.spawn(pause_async(s, "work that takes long"), "some work") for s in (0, 99)]
        tasks[1].cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert not log.records


def test_a_task_that_serves_others_begins_anew(monkeypatch, log):
    monkeypatch.setattr(background, "_PAUSE_S", 0)
    begun = []

    async def work():
        begun.append(len(begun))
        if len(begun) < 4:
            raise ValueError("a bug")

    async def main():
        await background.keep_running(work, "some work")
        never = background.keep_running(fails, "more work")
        await asyncio.sleep(0)
        never.cancel()
        await asyncio.wait([never])

    asyncio.run(main())
    assert len(begun) == 4
    assert log.text.count("ValueError: a bug") >= 3


def test_callbacks_that_fail_log_their_traceback(log):
    def callback():
        raise ValueError("a bug in a callback")

    async def main():
        loop = asyncio.get_running_loop()
        background.log_failures(loop)
        loop.call_soon(callback)
        loop.call_later(0, callback)
        await wait_until_async(lambda: log.text.count("ValueError: a bug in a callback") == 2)

    asyncio.run(main())
    assert log.text.count("ValueError: a bug in a callback") == 2


def test_a_listener_that_fails_keeps_no_other_from_its_call(log):
    called = []
    failures = background.call_all([called.append, lambda fact: fact / 0, called.append], 1, doing="a test")
    assert called == [1, 1] and len(failures) == 1
    assert "ZeroDivisionError" in log.text and log.records[0].facts["event_of"] == "a test"
