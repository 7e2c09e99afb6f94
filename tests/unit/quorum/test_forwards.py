"""Requests of clients to the active controller: in turn, one of each client at a time, bounded."""

import asyncio
import random

import pytest

from bowstring.engine.quorum.forwards import (
    CONNECTIONS,
    WAITING_BYTES_MAX,
    WAITING_MAX,
    WAITING_OF_CLIENT_MAX,
    Forwards,
)
from bowstring.protocol.errors import Errors, KafkaError
from tests.support.waiting import HANG_S

FREE = CONNECTIONS


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Requests:
    """Requests that are on their way until `answer`."""

    def __init__(self, forwards: Forwards) -> None:
        self.forwards = forwards
        self.on_their_way: dict[str, asyncio.Event] = {}
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def send(
        self, client: str, name: str, timeout_s: float = HANG_S, size_bytes: int = 1
    ) -> asyncio.Task[None]:
        async def go() -> None:
            async with self.forwards.turn(client, size_bytes, timeout_s):
                self.order.append(name)
                self.on_their_way[name] = asyncio.Event()
                await self.on_their_way[name].wait()
                del self.on_their_way[name]

        self.tasks.append(asyncio.ensure_future(go()))
        return self.tasks[-1]

    async def answer(self, *names: str) -> None:
        for name in names or list(self.on_their_way):
            self.on_their_way[name].set()
        await settle()


def run(scenario) -> None:
    async def all_of_it() -> None:
        forwards = Forwards()
        requests = Requests(forwards)
        await scenario(requests)
        for each in requests.tasks:
            each.cancel()
        await asyncio.gather(*requests.tasks, return_exceptions=True)
        assert len(forwards._free) == CONNECTIONS
        assert (forwards._count, forwards._bytes, forwards._waiting, forwards._on_their_way) == (
            0,
            0,
            {},
            set(),
        )

    asyncio.run(all_of_it())


def test_requests_of_one_client_keep_their_order():
    async def scenario(requests: Requests) -> None:
        for number in range(5):
            requests.send("a", f"a{number}")
        for number in range(5):
            await settle()
            assert list(requests.on_their_way) == [f"a{number}"]
            await requests.answer()

    run(scenario)


def test_a_client_with_many_requests_does_not_keep_another_waiting():
    async def scenario(requests: Requests) -> None:
        for number in range(60):
            requests.send("flood", f"f{number}")
        await settle()
        requests.send("other", "other")
        await settle()
        assert set(requests.on_their_way) == {"f0", "other"}

    run(scenario)


def test_clients_take_turns():
    async def scenario(requests: Requests) -> None:
        clients = [f"{number}-" for number in range(10)]
        for client in clients:
            for number in range(3):
                requests.send(client, client + str(number))
        while len(requests.order) < 30:
            await settle()
            assert len(requests.on_their_way) <= CONNECTIONS
            await requests.answer()
        for turn in range(3):
            part = requests.order[10 * turn : 10 * (turn + 1)]
            assert len({each.partition("-")[0] for each in part}) >= 9

    run(scenario)


def test_who_waits_too_long_gets_an_answer_and_has_no_effect():
    async def scenario(requests: Requests) -> None:
        requests.send("a", "a0")
        await settle()
        late = requests.send("a", "late", timeout_s=0.01)
        behind = requests.send("a", "behind")
        with pytest.raises(KafkaError) as refused:
            await late
        assert refused.value.error is Errors.REQUEST_TIMED_OUT
        await requests.answer()
        assert list(requests.on_their_way) == ["behind"] and not behind.done()

    run(scenario)


@pytest.mark.parametrize(
    ("clients", "each", "size_bytes"),
    [
        (1, WAITING_OF_CLIENT_MAX + 1, 1),
        (WAITING_MAX + FREE, 1, 1),
        (FREE + 4, 1, WAITING_BYTES_MAX // 4),
    ],
)
def test_too_many_are_refused(clients: int, each: int, size_bytes: int):
    async def scenario(requests: Requests) -> None:
        for client in range(clients):
            for number in range(each):
                requests.send(f"{client}", f"{client}.{number}", size_bytes=size_bytes)
            await asyncio.sleep(0)
        await settle()
        assert not any(task.done() for task in requests.tasks)
        with pytest.raises(KafkaError) as refused:
            await requests.send("0" if clients == 1 else "x", "too much", size_bytes=size_bytes)
        assert refused.value.error is Errors.THROTTLING_QUOTA_EXCEEDED

    run(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_lost_whatever_is_cancelled(seed: int):
    chance = random.Random(seed)

    async def scenario(requests: Requests) -> None:
        for number in range(300):
            requests.send(f"{chance.randrange(8)}", f"{number}", chance.choice([HANG_S, 0.0001]))
            if chance.random() < 0.3:
                chance.choice(requests.tasks).cancel()
            if chance.random() < 0.5:
                await asyncio.sleep(0)
            if chance.random() < 0.5 and requests.on_their_way:
                requests.on_their_way[chance.choice(list(requests.on_their_way))].set()
        while not all(each.done() for each in requests.tasks):
            for event in requests.on_their_way.values():
                event.set()
            await asyncio.sleep(0)

    run(scenario)
