"""The controller's shell: leaderships that begin and end, the order of decisions, timers, large changes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller import brokers, topics
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.records.cluster_metadata.markers import (
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from bowstring.protocol.records.cluster_metadata.nodes import RegisterControllerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.records.cluster_metadata.topics import RemoveTopicRecord
from tests.support.controller import CLUSTER_ID, FAR, registration_request
from tests.support.fake_quorum import FakeQuorum
from tests.support.waiting import wait_until_async

QUIET = {"metadata.max.idle.interval.ms": "0"}


class Clock:
    """Steady time as the test wants it."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


def run(
    scenario: Callable[..., Awaitable[None]],
    *,
    active: bool = True,
    voters: Callable[[], Iterable[int]] = lambda: (),
    **configs: str,
) -> None:
    async def all_of_it() -> None:
        quorum, clock = FakeQuorum(), Clock()
        settings = QUIET | {name.replace("_", "."): value for name, value in configs.items()}
        controller = QuorumController(
            *(quorum, BrokerConfigs(settings)),
            node_id=1,
            cluster_id=CLUSTER_ID,
            now_ms=clock,
            voters=voters,
        )
        controller.start()
        if active:
            quorum.lead()
            await wait_until_async(lambda: quorum.image.features)
        try:
            await scenario(controller, quorum, clock)
        finally:
            controller.stop()

    asyncio.run(all_of_it())


async def register(controller: QuorumController, broker: int, **fields) -> int:
    answer = await controller.run(
        lambda state, now_ms: brokers.register(
            state, registration_request(broker, **fields), 4, controller.next_offset, now_ms
        )
    )
    return answer.broker_epoch


async def heartbeat(controller: QuorumController, broker: int, epoch: int):
    request = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=FAR)
    return await controller.run(lambda state, now_ms: brokers.heartbeat(state, request, now_ms))


async def error_of(work: Awaitable[object]) -> object:
    with pytest.raises(KafkaError) as caught:
        await work
    return caught.value.error


def config(value: str = "1", name: str = "retention.ms") -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value=value)


def test_a_new_cluster_gets_its_first_records():
    async def scenario(controller, quorum, clock):
        assert controller.is_active
        assert quorum.image.features["metadata.version"] == 33
        assert isinstance(quorum.log[0], BeginTransactionRecord)

    run(scenario)


def test_only_the_leader_decides():
    async def scenario(controller, quorum, clock):
        assert await error_of(register(controller, 1)) is Errors.NOT_CONTROLLER
        quorum.lead(2)
        assert await error_of(register(controller, 1)) is Errors.NOT_CONTROLLER
        with pytest.raises(KafkaError):
            async with controller.changing():
                pass
        quorum.lead(1)
        await wait_until_async(lambda: controller.is_active)
        assert await register(controller, 1) > 0

    run(scenario, active=False)


def test_brokers_register_and_are_unfenced():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        assert quorum.image.brokers[1].epoch == epoch
        assert quorum.log[epoch].broker_id == 1
        assert not (await heartbeat(controller, 1, epoch)).is_fenced
        assert not quorum.image.brokers[1].fenced

    run(scenario)


def test_a_decision_sees_what_is_not_committed_yet():
    async def scenario(controller, quorum, clock):
        quorum.commits_at_once = False
        first = asyncio.ensure_future(register(controller, 1))
        await asyncio.sleep(0)
        assert 1 in controller.image.brokers
        assert 1 not in quorum.image.brokers
        again = asyncio.ensure_future(register(controller, 1))
        await asyncio.sleep(0)
        assert not first.done() and not again.done()
        quorum.commit()
        assert await first == await again  # the same incarnation

    run(scenario)


def test_an_answer_without_records_waits_for_those_it_rests_on():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        await heartbeat(controller, 1, epoch)
        quorum.commits_at_once = False
        registered = asyncio.ensure_future(register(controller, 2))
        await asyncio.sleep(0)
        answer = asyncio.ensure_future(heartbeat(controller, 1, epoch))
        await asyncio.sleep(0)
        assert not answer.done()
        quorum.commit()
        await asyncio.gather(registered, answer)

    run(scenario)


def test_what_was_not_committed_is_gone_with_the_leadership():
    async def scenario(controller, quorum, clock):
        quorum.commits_at_once = False
        lost = asyncio.ensure_future(register(controller, 1))
        await asyncio.sleep(0)
        quorum.lead(2)
        assert await error_of(lost) is Errors.NOT_CONTROLLER
        assert not controller.is_active
        assert 1 not in controller.image.brokers
        quorum.commits_at_once = True
        quorum.lead(1)
        await wait_until_async(lambda: controller.is_active)
        assert 1 not in controller.image.brokers
        assert await register(controller, 1) == quorum.next_offset - 1

    run(scenario)


def test_a_leader_of_another_epoch_begins_anew():
    async def scenario(controller, quorum, clock):
        quorum.commits_at_once = False
        lost = asyncio.ensure_future(register(controller, 1))
        await asyncio.sleep(0)
        quorum.lead(1)
        assert await error_of(lost) is Errors.NOT_CONTROLLER
        await wait_until_async(lambda: controller.is_active)
        assert 1 not in controller.image.brokers

    run(scenario)


def test_a_broker_whose_session_ends_is_fenced():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        await heartbeat(controller, 1, epoch)

        def is_fenced() -> bool:
            clock.ms += 5
            return quorum.image.brokers[1].fenced

        await wait_until_async(is_fenced)

    run(scenario, broker_session_timeout_ms="80")


def no_ops(quorum):
    return sum(isinstance(each, NoOpRecord) for each in quorum.log)


def test_an_idle_controller_writes_records():
    async def scenario(controller, quorum, clock):
        await register(controller, 2)

        def goes_on() -> bool:
            clock.ms += 5
            return no_ops(quorum) >= 3

        await wait_until_async(goes_on)

    run(scenario, metadata_max_idle_interval_ms="5")


@pytest.mark.parametrize("other", ["a broker", "a controller", "a voter"])
def test_an_idle_controller_writes_nothing_before_there_is_another_node(other):
    looked, all_voters = [], {1}

    def voters():
        looked.append(len(looked))
        return all_voters

    async def scenario(controller, quorum, clock):
        def decides() -> bool:
            clock.ms += 5
            return len(looked) >= 3

        await register(controller, 1)
        await wait_until_async(decides)
        assert no_ops(quorum) == 0
        if other == "a broker":
            await register(controller, 2)
        elif other == "a controller":
            record = RegisterControllerRecord(controller_id=2, incarnation_id=bytes(16))
            await controller.run(lambda state, now_ms: Decision([record], None))
        else:
            all_voters.add(2)

        def goes_on() -> bool:
            clock.ms += 5
            return no_ops(quorum) >= 1

        await wait_until_async(goes_on)

    run(scenario, voters=voters, metadata_max_idle_interval_ms="5")


def test_nothing_is_decided_upon_levels_that_are_not_committed():
    async def scenario(controller, quorum, clock):
        quorum.commits_at_once = False
        old = FeatureLevelRecord(name="metadata.version", feature_level=20)
        changed = asyncio.ensure_future(controller.run(lambda state, now_ms: Decision([old], None)))
        levels = []

        def look(state, now_ms):
            levels.append(quorum.image.features["metadata.version"])
            return Decision([], None)

        looked = asyncio.ensure_future(controller.run(look))
        await asyncio.sleep(0)
        quorum.commit()
        await asyncio.gather(changed, looked)
        assert levels == [20]

    run(scenario)


def test_large_changes_are_transactions():
    async def scenario(controller, quorum, clock):
        many = [config(name=f"x{number}") for number in range(10_001)]
        quorum.batches.clear()
        await controller.run(lambda state, now_ms: Decision(many, None))
        assert quorum.batches == [1, 10_000, 1, 1]
        assert isinstance(quorum.log[-1], EndTransactionRecord)
        assert len(quorum.image.resource_configs(4, "")) == 10_001
        quorum.batches.clear()
        await controller.run(lambda state, now_ms: Decision(many, None, atomic=False))
        assert quorum.batches == [10_000, 1]
        long = [config("x" * 32_000, name=f"y{number}") for number in range(100)]
        quorum.batches.clear()
        await controller.run(lambda state, now_ms: Decision(long, None))
        assert quorum.batches[0] == quorum.batches[-1] == 1
        assert sum(quorum.batches) == 102 and max(quorum.batches) < 200
        assert len(quorum.batches) > 3

    run(scenario)


def test_old_clusters_have_no_transactions_for_large_changes():
    async def scenario(controller, quorum, clock):
        old = FeatureLevelRecord(name="metadata.version", feature_level=12)
        await controller.run(lambda state, now_ms: Decision([old], None))
        before = len(quorum.log)
        many = [config(name=f"x{number}") for number in range(10_001)]
        refused = controller.run(lambda state, now_ms: Decision(many, None))
        assert await error_of(refused) is Errors.POLICY_VIOLATION
        assert len(quorum.log) == before
        assert controller.is_active

    run(scenario)


def test_handlers_decide_in_turn_and_do_not_wait_for_each_others_commits():
    async def scenario(controller, quorum, clock):
        order = []

        async def change(name: str) -> None:
            async with controller.changing() as changing:
                order.append((name, len(changing.image.resource_configs(4, ""))))
                await asyncio.sleep(0)  # as between two time slices
                await changing.commit([config(name=name)])

        quorum.commits_at_once = False
        changes = [asyncio.ensure_future(change(name)) for name in ("a", "b", "c")]
        await wait_until_async(lambda: len(quorum.image.features) and len(order) == 3)
        assert order == [("a", 0), ("b", 1), ("c", 2)]
        assert not any(each.done() for each in changes)
        quorum.commit()
        await wait_until_async(lambda: len(controller.image.resource_configs(4, "")) == 3)
        quorum.commit()
        await asyncio.gather(*changes)
        async with controller.changing():
            pass  # nothing to commit
        quorum.commits_at_once = True
        await register(controller, 1)

    run(scenario)


def test_a_decision_that_cannot_be_applied_ends_the_leadership():
    async def scenario(controller, quorum, clock):
        bad = Decision([config(), RemoveTopicRecord(topic_id=b"gone" * 4)], None)
        with pytest.raises(KeyError):
            await controller.run(lambda state, now_ms: bad)
        assert quorum.resigned == 1
        assert not controller.is_active

    run(scenario)


def test_a_refused_decision_changes_nothing():
    async def scenario(controller, quorum, clock):
        before = len(quorum.log)
        refused = controller.run(lambda state, now_ms: topics.create(state, NewTopic("t", 1, 1)))
        assert await error_of(refused) is Errors.INVALID_REPLICATION_FACTOR
        assert len(quorum.log) == before
        assert controller.is_active

    run(scenario)


def beat(epoch: int, broker: int = 1, **fields) -> BrokerHeartbeatRequest:
    facts = {"current_metadata_offset": FAR} | fields
    return BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, **facts)


def test_heartbeats_that_change_nothing_do_not_wait_for_a_decision():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        await controller.heartbeat(beat(epoch))
        async with controller.changing():
            clock.ms += 5000
            answer = await controller.heartbeat(beat(epoch), clock.ms)
            assert not answer.is_fenced and answer.is_caught_up
            with pytest.raises(KafkaError) as stale:
                await controller.heartbeat(beat(epoch + 1))
            assert stale.value.error is Errors.STALE_BROKER_EPOCH
        clock.ms += 8000
        await wait_until_async(lambda: controller._leadership.looked_ms == clock.ms)
        assert not quorum.image.brokers[1].fenced

    run(scenario, broker_session_timeout_ms="9000")


def test_a_heartbeat_counts_from_its_arrival_although_its_turn_comes_late():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        await heartbeat(controller, 1, epoch)
        sessions = controller._leadership.state.sessions
        async with controller.changing():
            clock.ms += 5000
            stopping = asyncio.ensure_future(controller.heartbeat(beat(epoch, want_fence=True), clock.ms))
            await asyncio.sleep(0)
            assert not stopping.done()
            assert sessions.is_valid(1, epoch, clock.ms + 9000)
        assert (await stopping).is_fenced

    run(scenario, broker_session_timeout_ms="9000")


def test_what_keeps_brokers_in_service_comes_before_requests_of_clients():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        order = []

        async def client(number: int) -> None:
            async with controller.changing():
                order.append(number)

        async def broker() -> None:
            await controller.heartbeat(beat(epoch))
            order.append("unfenced")

        async with controller.changing():
            waiting = [asyncio.ensure_future(client(number)) for number in range(20)]
            await asyncio.sleep(0)
            waiting.append(asyncio.ensure_future(broker()))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert order.index("unfenced") <= 3  # after its commit
        assert not quorum.image.brokers[1].fenced

    run(scenario)


def test_a_decision_whose_turn_does_not_come_is_refused():
    async def scenario(controller, quorum, clock):
        before = len(quorum.log)
        async with controller.changing():
            refused = controller.run(lambda state, now_ms: Decision([config()], None))
            assert await error_of(refused) is Errors.REQUEST_TIMED_OUT
        await register(controller, 1)
        assert len(quorum.log) == before + 1

    run(scenario, request_timeout_ms="20")


def test_a_controller_that_stood_still_fences_nobody_for_that():
    async def scenario(controller, quorum, clock):
        epoch = await register(controller, 1)
        await heartbeat(controller, 1, epoch)
        clock.ms += 60_000  # the process stood still; heartbeats wait in its sockets
        await wait_until_async(lambda: controller._leadership.looked_ms == clock.ms)
        await controller.run(lambda state, now_ms: Decision([], None))
        assert not quorum.image.brokers[1].fenced
        for _ in range(10):  # but it is fenced when time passes without a heartbeat
            clock.ms += 15
            await wait_until_async(lambda: controller._leadership.looked_ms == clock.ms)
        await wait_until_async(lambda: quorum.image.brokers[1].fenced)

    run(scenario, broker_session_timeout_ms="80")
