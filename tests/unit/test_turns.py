"""Turns: one holder at a time whatever is cancelled, ended twice or ended early."""

import asyncio
import random

import pytest

from bowstring.engine.turns import Turn, Turns


def test_turns_begin_in_order_of_arrival_and_urgent_ones_first():
    async def scenario() -> None:
        turns, order = Turns(), []
        first = await turns.take()

        async def take(name: str, *, urgent: bool) -> None:
            turn = await turns.take(urgent=urgent)
            order.append(name)
            turn.end()

        async with asyncio.TaskGroup() as group:
            for name, urgent in (("a", False), ("b", False), ("c", True), ("d", True)):
                group.create_task(take(name, urgent=urgent))
            await asyncio.sleep(0)
            first.end()
        assert order == ["c", "d", "a", "b"]
        assert turns.holder is None

    asyncio.run(scenario())


def test_a_turn_that_ended_does_not_end_the_next_one():
    async def scenario() -> None:
        turns = Turns()
        first = await turns.take()
        waiting = asyncio.ensure_future(turns.take())
        await asyncio.sleep(0)
        first.end()
        second = await waiting
        first.end()
        assert second.is_held and not first.is_held
        second.end()
        assert turns.holder is None

    asyncio.run(scenario())


def test_a_turn_that_begins_while_its_task_is_cancelled_goes_to_the_next():
    async def scenario() -> None:
        turns = Turns()
        first = await turns.take()
        cancelled = asyncio.ensure_future(turns.take())
        waiting = asyncio.ensure_future(turns.take())
        await asyncio.sleep(0)
        first.end()  # the next turn begins, and its task has not run yet
        cancelled.cancel()
        assert (await waiting).is_held

    asyncio.run(scenario())


def test_who_waits_too_long_is_told():
    async def scenario() -> None:
        turns = Turns()
        first = await turns.take()
        with pytest.raises(TimeoutError):
            await turns.take(timeout_s=0.01)
        first.end()
        assert turns.holder is None
        assert (await turns.take(timeout_s=0.01)).is_held

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_one_task_has_the_turn_whatever_is_cancelled(seed: int):
    chance = random.Random(seed)

    async def scenario() -> None:
        turns, served = Turns(), [0]
        holders: list[Turn] = []

        async def task() -> None:
            turn: Turn = await turns.take(urgent=chance.random() < 0.3)
            try:
                assert not holders, "two tasks have the turn"
                holders.append(turn)
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                served[0] += 1
            finally:
                holders.remove(turn)
                for _ in range(chance.randrange(1, 3)):
                    turn.end()
            await asyncio.sleep(0)
            turn.end()

        tasks = []
        for _ in range(300):
            tasks.append(asyncio.ensure_future(task()))
            if chance.random() < 0.5:
                chance.choice(tasks).cancel()
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        failed = [each.exception() for each in tasks if not each.cancelled() and each.exception()]
        assert not failed
        assert turns.holder is None
        assert served[0] > 50

    asyncio.run(scenario())
