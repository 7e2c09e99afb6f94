"""Changes of the same topics at once: whatever ends, fails or is cancelled between them, the log can be replayed."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller import brokers
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.metadata.image import ClusterImage, MetadataError
from bowstring.engine.metadata.topic_changes import NewTopic, create_partitions, create_topic
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.ids import random_uuid
from bowstring.protocol.records.cluster_metadata.nodes import RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.cluster_metadata.topics import RemoveTopicRecord, TopicRecord
from tests.support.controller import CLUSTER_ID, registration_request
from tests.support.fake_quorum import FakeQuorum
from tests.support.waiting import wait_until_async

NAMES = [f"n{number}" for number in range(5)]
QUIET = {"metadata.max.idle.interval.ms": "0"}


def run(scenario: Callable[[QuorumController, FakeQuorum], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        quorum = FakeQuorum()
        controller = QuorumController(quorum, BrokerConfigs(QUIET), node_id=1, cluster_id=CLUSTER_ID)
        controller.start()
        quorum.lead()
        await wait_until_async(lambda: quorum.image.features)
        await controller.run(lambda state, now_ms: registered(state, controller.next_offset, now_ms))
        try:
            await scenario(controller, quorum)
        finally:
            controller.stop()

    asyncio.run(all_of_it())


def registered(state, next_offset: int, now_ms: int) -> Decision:
    decision = brokers.register(state, registration_request(1), 4, next_offset, now_ms)
    record = decision.records[-1]
    assert isinstance(record, RegisterBrokerRecord)
    record.fenced = False
    return decision


def replayed(quorum: FakeQuorum) -> ClusterImage:
    image = ClusterImage()
    image.apply_all(quorum.log)
    return image


def facts(image: ClusterImage) -> object:
    topics = {topic.name: (topic.id, list(topic.partitions)) for topic in image.topics.values()}
    return topics, image.configs, image.partition_count


class Chaos:
    """Tasks that create, delete and grow topics of few names, and end in every way in every place."""

    def __init__(self, controller: QuorumController, quorum: FakeQuorum, seed: int) -> None:
        self.controller, self.quorum = controller, quorum
        self.chance = random.Random(seed)
        self.inside = 0
        self.changed = 0

    async def rest(self) -> None:
        if self.chance.random() < 0.05:
            raise RuntimeError("a handler fails")
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)

    async def change(self) -> None:
        await self.rest()
        async with self.controller.changing() as changing:
            self.inside += 1
            assert self.inside == 1, "two tasks change the cluster at once"
            try:
                records = []
                for name in self.chance.sample(NAMES, self.chance.randrange(1, 4)):
                    records += self._records(changing.image, name)
                    await self.rest()
            finally:
                self.inside -= 1
            if self.chance.random() < 0.9:
                await changing.commit(records)
                self.changed += 1
            await self.rest()

    def _records(self, image: ClusterImage, name: str) -> list:
        topic = image.topics.get(name)
        if topic is None:
            return create_topic(image, BrokerConfigs({}), NewTopic(name, 2, 1), random_uuid())
        if self.chance.random() < 0.5:
            return [RemoveTopicRecord(topic_id=topic.id)]
        return create_partitions(image, name, len(topic.partitions) + 1, None, self.chance)

    async def decide(self) -> None:
        """A decision that does not wait within its turn."""

        def decide(state, now_ms) -> Decision[None]:
            assert self.inside == 0, "a decision is made within the turn of another"
            topic = next(iter(state.image.topics.values()), None)
            return Decision([] if topic is None else [RemoveTopicRecord(topic_id=topic.id)], None)

        await self.controller.run(decide)

    async def go(self) -> None:
        self.quorum.commits_at_once = False
        tasks: list[asyncio.Task[None]] = []
        for _ in range(400):
            work = self.change() if self.chance.random() < 0.9 else self.decide()
            tasks.append(asyncio.ensure_future(work))
            if self.chance.random() < 0.3:
                self.chance.choice(tasks).cancel()
            for _ in range(self.chance.randrange(4)):
                await asyncio.sleep(0)
            if self.chance.random() < 0.3:
                self.quorum.commit()
        while not all(each.done() for each in tasks):
            self.quorum.commit()
            await asyncio.sleep(0)
        for each in tasks:
            failure = None if each.cancelled() else each.exception()
            assert failure is None or isinstance(failure, RuntimeError), failure


@pytest.mark.parametrize("seed", range(30))
def test_changes_of_the_same_topics_leave_a_log_that_can_be_replayed(seed: int):
    async def scenario(controller: QuorumController, quorum: FakeQuorum) -> None:
        chaos = Chaos(controller, quorum, seed)
        await chaos.go()
        assert controller.is_active and quorum.resigned == 0
        assert chaos.changed > 30
        assert facts(replayed(quorum)) == facts(controller.image) == facts(quorum.image)
        async with controller.changing():
            pass  # the turn is free

    run(scenario)


def test_a_change_commits_once():
    async def scenario(controller: QuorumController, quorum: FakeQuorum) -> None:
        async with controller.changing() as first:
            await first.commit([])
            async with controller.changing():
                with pytest.raises(AssertionError):
                    await first.commit([])
        with pytest.raises(AssertionError):
            await first.commit([])

    run(scenario)


def test_parts_of_a_change_are_appended_before_it_ends():
    async def scenario(controller: QuorumController, quorum: FakeQuorum) -> None:
        quorum.commits_at_once = False
        async with controller.changing() as change:
            change.append([TopicRecord(name="a", topic_id=b"a" * 16)])
            assert quorum.log[-1] == TopicRecord(name="a", topic_id=b"a" * 16)
            other = asyncio.ensure_future(controller.run(lambda state, now_ms: Decision([], None)))
            await asyncio.sleep(0)
            assert not other.done()  # the turn is kept
            done = asyncio.ensure_future(change.commit([TopicRecord(name="b", topic_id=b"b" * 16)]))
            await asyncio.sleep(0)
            assert not done.done() and "a" not in quorum.image.topics
            quorum.commit()
            await done
        await other
        assert {"a", "b"} <= set(quorum.image.topics)

    run(scenario)


def test_a_leadership_that_ends_between_parts_refuses_the_later_ones():
    async def scenario(controller: QuorumController, quorum: FakeQuorum) -> None:
        with pytest.raises(KafkaError) as caught:
            async with controller.changing() as change:
                change.append([TopicRecord(name="a", topic_id=b"a" * 16)])
                quorum.lead(2)
                quorum.lead(1)
                await wait_until_async(lambda: controller.is_active)
                change.append([TopicRecord(name="b", topic_id=b"b" * 16)])
        assert caught.value.error is Errors.NOT_CONTROLLER
        assert set(quorum.image.topics) <= {"a"}
        assert facts(replayed(quorum)) == facts(controller.image)

    run(scenario)


@pytest.mark.parametrize("count", [1, 10_001])
@pytest.mark.parametrize("atomic", [True, False])
def test_no_part_of_a_decision_that_does_not_apply_reaches_the_log(count: int, atomic: bool):
    """Nor when its first batches would."""

    async def scenario(controller: QuorumController, quorum: FakeQuorum) -> None:
        before = list(quorum.batches)
        good = [
            ConfigRecord(resource_type=4, resource_name="", name=f"x{n}", value="1") for n in range(count)
        ]
        twice = [TopicRecord(name="t", topic_id=bytes([number]) * 16) for number in (1, 2)]
        with pytest.raises(MetadataError):
            await controller.run(lambda state, now_ms: Decision([*good, *twice], None, atomic=atomic))
        assert quorum.batches == before  # those that a resignation drops are noted there, too
        assert quorum.resigned == 1 and not controller.is_active
        quorum.lead()
        await wait_until_async(lambda: controller.is_active)
        assert not controller.image.topics
        assert not controller.image.resource_configs(4, "")

    run(scenario)


def test_a_change_of_a_leadership_that_is_over_is_not_written():
    """The leadership may end and begin again between two time slices of a decision."""

    async def scenario(controller: QuorumController, quorum: FakeQuorum) -> None:
        with pytest.raises(KafkaError) as caught:
            async with controller.changing() as changing:
                before = list(quorum.log)
                quorum.lead(2)
                quorum.lead(1)
                await wait_until_async(lambda: controller.is_active)
                await changing.commit([TopicRecord(name="t", topic_id=b"t" * 16)])
        assert caught.value.error is Errors.NOT_CONTROLLER
        assert quorum.log == before and controller.is_active
        async with controller.changing() as changing:
            await changing.commit([TopicRecord(name="t", topic_id=b"t" * 16)])
        assert "t" in quorum.image.topics

    run(scenario)
