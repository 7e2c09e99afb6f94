"""bowstring.rest.v2.deliveries: requests that wait are bounded, in number and in bytes."""

import asyncio

import pytest

from bowstring.rest.callers import CALLS_OF_ONE
from bowstring.rest.v2.deliveries import WAITING_MAX, Deliveries
from bowstring.web.http_error import HttpError


class SlowCaller:
    """A caller whose threads end when a test says so."""

    user = "alice"

    def __init__(self):
        self.running, self.most, self.go_on = 0, 0, asyncio.Event()

    async def thread(self, function, *arguments):
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go_on.wait()
        self.running -= 1
        return function(*arguments)


async def begun(deliveries, sizes):
    tasks = [asyncio.ensure_future(deliveries.encode(size, max, size, 0)) for size in sizes]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_waiting_requests_are_bounded_in_number():
    async def program():
        caller = SlowCaller()
        deliveries = Deliveries(caller, 2000)
        tasks = await begun(deliveries, [1] * WAITING_MAX)
        with pytest.raises(HttpError) as refused:
            await deliveries.encode(1, max, 1, 0)
        assert (refused.value.status, refused.value.code) == (429, 42901)
        caller.go_on.set()
        assert await asyncio.gather(*tasks) == [1] * WAITING_MAX
        assert caller.most == CALLS_OF_ONE
        assert await deliveries.encode(2, max, 2, 0) == 2

    asyncio.run(program())


def test_waiting_requests_are_bounded_in_bytes():
    async def program():
        caller = SlowCaller()
        deliveries = Deliveries(caller, 1000)
        tasks = await begun(deliveries, [5000])  # one may always wait
        with pytest.raises(HttpError):
            await deliveries.encode(1, max, 1, 0)
        caller.go_on.set()
        assert await asyncio.gather(*tasks) == [5000]

    asyncio.run(program())
