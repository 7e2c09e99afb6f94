"""bowstring.rest.v2.deliveries: requests that wait are bounded, in number and in bytes."""

import asyncio

import pytest

from bowstring.rest.callers import CALLS_OF_ONE
from bowstring.rest.v2.deliveries import WAITING_MAX, Deliveries, size_of
from bowstring.rest.v2.produce_data import RECORDS_MAX, plain_records
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


class FullProducer:
    """A producer whose memory is full until a test says so."""

    is_full = True

    def would_block(self, topic, size):
        return self.is_full


@pytest.mark.parametrize("step", ["ready", "send"])
def test_records_that_wait_for_the_producer_count_too(step):
    """A body of many records without keys and values is small, and its records are not."""

    async def program():
        caller, producer = SlowCaller(), FullProducer()

        async def ready_producer():
            return producer

        caller.ready_producer, caller.await_ready = ready_producer, lambda topic, size: None
        deliveries = Deliveries(caller, 1000)
        rows = [(None, None, None)] * 7
        size = size_of(rows)

        def begin():
            if step == "ready":
                return deliveries.ready("t", size)
            return deliveries.send(producer, "t", [], size)

        first = asyncio.ensure_future(begin())
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(HttpError) as refused:
            await begin()
        assert refused.value.status == 429
        producer.is_full = False
        caller.go_on.set()
        await first
        await begin()

    asyncio.run(program())


@pytest.mark.parametrize("format", ["binary", "json"])
def test_the_records_of_a_request_are_bounded_in_number(format):
    def body(count):
        return b'{"records":[' + b",".join([b"{}"] * count) + b"]}"

    assert len(plain_records(body(RECORDS_MAX), format).rows) == RECORDS_MAX
    with pytest.raises(HttpError) as refused:
        plain_records(body(RECORDS_MAX + 1), format)
    assert refused.value.status == 422
