"""Waiting until a broker has carried out what its image has: for each change, at most until it was tried once."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker import image_follower
from bowstring.engine.broker.image_follower import ImageFollower
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.storage.log_healer import RETRY_FIRST_S
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.waiting import HANG_S, wait_until_async

TOPIC_ID = b"t" * 16


class Parts:
    """The parts of a broker that a follower changes. Each change of configs waits for a turn that the test gives.

    Attributes:
        done: The names of configs that were carried out.
        fails: How many attempts to carry configs out are to fail.
        fails_to_remove: How many attempts to remove a topic.
    """

    def __init__(self):
        self.image = ClusterImage()
        self.on_applied, self.on_snapshot = [], []
        self.done, self.turns, self.begun = [], asyncio.Semaphore(0), 0
        self.fails = self.fails_to_remove = 0
        manager = SimpleNamespace(broker_id=1, has=lambda key: False, keys_of=lambda topic_id: [])
        replication = SimpleNamespace(apply=self.nothing, configure=lambda configs: None, manager=manager)
        logs = SimpleNamespace(
            open_new=self.nothing,
            sync_removed=self.sync_removed,
            of_topic=lambda name: [],
            forget_topic=list,
            unopened=lambda topic: [],
        )
        directories = SimpleNamespace(note=list, lose=list)
        self.follower = ImageFollower(self, self, logs, replication, directories)

    async def nothing(self, *_, **__):
        pass

    async def sync_removed(self):
        """What can fail of a removal."""
        if self.fails_to_remove > 0:
            self.fails_to_remove -= 1
            raise OSError(28, "No space left on device")

    async def carry_out(self, image, configs):
        """Carries out a change of configs (CommittedConfigs)."""
        self.begun += 1
        await self.turns.acquire()
        if self.fails > 0:
            self.fails -= 1
            raise OSError(28, "No space left on device")
        self.done += [each.name for each in configs]

    def change(self, *records):
        for record in records:
            self.image.apply(record)
        for listener in self.on_applied:
            listener(records, 0, 0)

    def config(self, name):
        self.change(ConfigRecord(resource_type=4, resource_name="1", name=name, value="v"))


def run(scenario):
    async def all_of_it():
        parts = Parts()
        parts.follower.listen()
        parts.follower.start()
        async with asyncio.timeout(HANG_S):
            await parts.follower.begun()
            try:
                await scenario(parts, parts.follower)
            finally:
                await parts.follower.stop()

    asyncio.run(all_of_it())


async def some_turns():
    for _ in range(20):
        await asyncio.sleep(0)


def test_there_is_nothing_to_wait_for():
    async def scenario(parts, follower):
        await follower.settled()

    run(scenario)


def test_it_waits_while_a_change_is_carried_out():
    async def scenario(parts, follower):
        parts.config("a")
        waits = [asyncio.ensure_future(follower.settled()) for _ in range(3)]
        await wait_until_async(lambda: parts.begun)
        waits.append(asyncio.ensure_future(follower.settled()))
        await some_turns()
        assert not any(each.done() for each in waits)
        parts.turns.release()
        await asyncio.gather(*waits)
        assert parts.done == ["a"]

    run(scenario)


def test_later_changes_are_not_waited_for():
    """Others make them all the time."""

    async def scenario(parts, follower):
        parts.config("a")
        await wait_until_async(lambda: parts.begun)
        first = asyncio.ensure_future(follower.settled())
        await some_turns()
        parts.config("b")
        second = asyncio.ensure_future(follower.settled())
        parts.turns.release()
        await first
        await wait_until_async(lambda: parts.begun == 2)
        assert parts.done == ["a"] and not second.done()
        parts.turns.release()
        await second
        assert parts.done == ["a", "b"]

    run(scenario)


def test_a_change_that_fails_is_waited_for_once_and_tried_further():
    async def scenario(parts, follower):
        parts.fails = 2
        parts.turns = asyncio.Semaphore(100)
        parts.config("a")
        await follower.settled()
        assert parts.begun >= 1 and parts.done == []
        await wait_until_async(lambda: parts.done == ["a"])

    run(scenario)


def test_attempts_have_pauses():
    """The disk may be full for long, and the control thread has other work."""

    async def scenario(parts, follower):
        parts.fails = 4
        parts.turns = asyncio.Semaphore(100)
        parts.config("a")
        began_s = asyncio.get_running_loop().time()
        await wait_until_async(lambda: parts.done == ["a"])
        assert asyncio.get_running_loop().time() - began_s > RETRY_FIRST_S * (1 + 2 + 4 + 8) * 0.9
        assert parts.begun == 5

    run(scenario)


def test_a_removal_that_fails_holds_nobody_up():
    """Changes behind it wait until it works."""

    async def scenario(parts, follower):
        parts.turns = asyncio.Semaphore(100)
        partition = PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1)
        parts.change(TopicRecord(name="t", topic_id=TOPIC_ID), partition)
        await follower.settled()
        parts.fails_to_remove = 3
        parts.change(RemoveTopicRecord(topic_id=TOPIC_ID))
        await follower.settled()
        assert parts.fails_to_remove == 2
        parts.config("a")
        await follower.settled()
        assert parts.done == ["a"] and parts.fails_to_remove == 0

    run(scenario)


def test_a_listener_that_fails_holds_nobody_up():
    async def scenario(parts, follower):
        def fail():
            follower.when_changed = lambda: None
            raise ZeroDivisionError("on purpose")

        follower.when_changed = fail
        parts.config("a")
        wait = asyncio.ensure_future(follower.settled())
        await wait_until_async(lambda: parts.begun)
        parts.config("b")
        later = asyncio.ensure_future(follower.settled())
        parts.turns.release()
        parts.turns.release()
        await wait
        await later
        assert parts.done == ["a", "b"]

    run(scenario)


@pytest.mark.parametrize("begins", ["before", "behind"])
def test_nobody_waits_for_a_follower_that_stops(begins):
    async def scenario(parts, follower):
        parts.config("a")
        wait = asyncio.ensure_future(follower.settled())
        if begins == "before":
            await wait_until_async(lambda: parts.begun)
        await follower.stop()
        await wait
        parts.config("b")
        await follower.settled()

    run(scenario)


def test_nobody_waits_for_a_follower_that_has_not_started():
    async def scenario():
        parts = Parts()
        parts.follower.listen()
        parts.config("a")
        await parts.follower.settled()

    asyncio.run(scenario())


def test_who_is_cancelled_is_forgotten():
    async def scenario(parts, follower):
        parts.config("a")
        waits = [asyncio.ensure_future(follower.settled()) for _ in range(2)]
        await wait_until_async(lambda: parts.begun)
        waits[0].cancel()
        await asyncio.wait({waits[0]})
        parts.turns.release()
        await waits[1]

    run(scenario)


def test_a_stop_waits_for_changes_in_progress():
    """The next start would report logs as lost that were not created yet."""

    async def scenario(parts, follower):
        parts.config("a")
        parts.config("b")
        stopping = asyncio.ensure_future(follower.stop())
        await wait_until_async(lambda: parts.begun)
        await some_turns()
        assert not stopping.done()
        parts.turns.release()
        await stopping
        assert parts.done == ["a", "b"]

    run(scenario)


def test_a_stop_does_not_wait_long(monkeypatch):
    monkeypatch.setattr(image_follower, "STOP_TIMEOUT_S", 0.01)

    async def scenario(parts, follower):
        parts.config("a")
        await wait_until_async(lambda: parts.begun)
        await follower.stop()
        assert parts.done == []

    run(scenario)
