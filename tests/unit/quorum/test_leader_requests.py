"""Requests of a node to its own controller stay within the process, with the turns of others."""

import asyncio

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.quorum.connections import Connections
from bowstring.engine.quorum.forwards import WAITING_BYTES_MAX, WAITING_MAX
from bowstring.engine.quorum.leader_requests import LeaderRequests
from bowstring.engine.raft.voters import Node
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.alter_partition import AlterPartitionRequest
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bowstring.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from bowstring.protocol.messages.envelope import EnvelopeRequest
from tests.support.node_double import NodeDouble, served
from tests.support.quorum_nodes import Controllers
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until_async

HEARTBEAT = BrokerHeartbeatRequest(broker_id=9, broker_epoch=9)


def run(directory, scenario, count=1):
    """Runs a scenario with the active controller."""

    async def all_of_it():
        controllers = Controllers(directory, count)
        try:
            await controllers.start()
            async with asyncio.timeout(HANG_S):
                node = await controllers.leader()
                await wait_until_async(lambda: node.server.controller.is_active)
                await scenario(node)
        finally:
            await controllers.stop()

    asyncio.run(all_of_it())


def creation(name):
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1)], validate_only=True)


def handled_by(node, key, handle):
    """Has a handler of this test answer an API of the node's controller."""
    node.server.dispatcher._handlers[key] = handle


@pytest.mark.parametrize("count", [1, 3])
def test_the_active_controller_asks_itself_without_a_connection(tmp_path, count):
    async def scenario(node):
        answer = await node.quorum.ask_leader(HEARTBEAT, FOR_EVER_MS)
        assert answer.error_code == Errors.STALE_BROKER_EPOCH.code
        answer = await node.quorum.ask_leader(creation("t"), FOR_EVER_MS)
        assert [each.name for each in answer.topics] == ["t"]
        made = node.quorum._made_connections
        assert made is None or not made._to_leader
        assert (made is None) == (count == 1)

    run(tmp_path, scenario, count)


def test_requests_are_handed_over_in_their_version_and_counted(tmp_path):
    async def scenario(node):
        versions = []

        async def note(request):
            versions.append((request.version, request.body is HEARTBEAT, request.listener.is_controller))
            return API_VERSIONS[request.api_key].response()

        counters = node.server.dispatcher.counters
        before = counters[ApiKeys.BROKER_HEARTBEAT].requests if ApiKeys.BROKER_HEARTBEAT in counters else 0
        handled_by(node, ApiKeys.BROKER_HEARTBEAT, note)
        await node.quorum.ask_leader(HEARTBEAT)
        await node.quorum.ask_leader(HEARTBEAT, None, 0)
        assert versions == [(API_VERSIONS[ApiKeys.BROKER_HEARTBEAT].highest, True, True), (0, True, True)]
        assert counters[ApiKeys.BROKER_HEARTBEAT].requests == before + 2

    run(tmp_path, scenario)


def test_what_keeps_the_node_alive_does_not_wait_behind_its_clients(tmp_path):
    """The controller is busy, and as many requests of clients wait for it as may."""

    async def scenario(node):
        controller = node.server.controller
        async with controller.changing():
            waiting = [
                asyncio.ensure_future(
                    node.quorum.ask_leader(creation("t"), FOR_EVER_MS, None, f"{each % 10}")
                )
                for each in range(100)
            ]
            answer = await node.quorum.ask_leader(HEARTBEAT, FOR_EVER_MS)
            assert answer.error_code == Errors.STALE_BROKER_EPOCH.code
            urgent = asyncio.ensure_future(
                node.quorum.ask_leader(AlterPartitionRequest(broker_id=9, broker_epoch=9), FOR_EVER_MS)
            )
            await wait_until_async(lambda: controller._turns._urgent)
            assert not any(each.done() for each in waiting)
            assert len(node.server.controller._turns._others) <= 4
        assert (await urgent).error_code == Errors.STALE_BROKER_EPOCH.code
        assert all(each.topics for each in await asyncio.gather(*waiting))

    run(tmp_path, scenario)


def test_many_requests_of_a_client_wait_and_too_large_ones_are_refused(tmp_path):
    """As many connections as there are may have the same client id, as libraries have by default."""

    async def scenario(node):
        large = EnvelopeRequest(request_data=bytes(WAITING_BYTES_MAX))
        async with node.server.controller.changing():
            waiting = [
                asyncio.ensure_future(node.quorum.ask_leader(creation("t"), FOR_EVER_MS, None, "one"))
                for _ in range(WAITING_MAX + 9)
            ]
            await asyncio.sleep(0)
            waiting.append(asyncio.ensure_future(node.quorum.ask_leader(large, FOR_EVER_MS, None, "one")))
            await asyncio.sleep(0)
            with pytest.raises(KafkaError) as refused:
                await node.quorum.ask_leader(large, FOR_EVER_MS, None, "other")
            assert refused.value.error is Errors.THROTTLING_QUOTA_EXCEEDED
            waiting.pop().cancel()
        assert all(each.topics for each in await asyncio.gather(*waiting))

    run(tmp_path, scenario)


def test_requests_of_a_client_keep_their_order(tmp_path):
    async def scenario(node):
        order = []

        async def note(request):
            order.append(request.body.topics[0].name)
            await asyncio.sleep(0)
            order.append(request.body.topics[0].name)
            return API_VERSIONS[request.api_key].response()

        handled_by(node, ApiKeys.CREATE_TOPICS, note)
        names = [f"t{each}" for each in range(10)]
        await asyncio.gather(*(node.quorum.ask_leader(creation(each), None, None, "one") for each in names))
        assert order == [name for name in names for _ in range(2)]

    run(tmp_path, scenario)


@pytest.mark.parametrize("waits", ["until its time is over", "until it is cancelled"])
def test_a_request_goes_on_when_nobody_waits_for_it(tmp_path, waits):
    """As over a connection; the controller's decision must not depend on who waits."""

    async def scenario(node):
        may_answer, ended = asyncio.Event(), []

        async def slow(request):
            await may_answer.wait()
            ended.append(request.version)
            return API_VERSIONS[request.api_key].response()

        handled_by(node, ApiKeys.BROKER_HEARTBEAT, slow)
        asked = asyncio.ensure_future(node.quorum.ask_leader(HEARTBEAT, 20))
        if waits == "until it is cancelled":
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait({asked})
        else:
            with pytest.raises(KafkaError, match="does not answer") as late:
                await asked
            assert late.value.error is Errors.NOT_CONTROLLER
        may_answer.set()
        await wait_until_async(lambda: ended)

    run(tmp_path, scenario)


def test_an_error_of_a_handler_is_answered(tmp_path, caplog):
    async def scenario(node):
        async def fail(request):
            raise ZeroDivisionError("on purpose")

        async def refuse(request):
            raise KafkaError(Errors.STALE_BROKER_EPOCH)

        handled_by(node, ApiKeys.BROKER_HEARTBEAT, refuse)
        answer = await node.quorum.ask_leader(HEARTBEAT)
        assert answer.error_code == Errors.STALE_BROKER_EPOCH.code
        handled_by(node, ApiKeys.BROKER_HEARTBEAT, fail)
        answer = await node.quorum.ask_leader(HEARTBEAT)
        assert answer.error_code == Errors.UNKNOWN_SERVER_ERROR.code
        handled_by(node, ApiKeys.CREATE_TOPICS, refuse)
        (topic,) = (await node.quorum.ask_leader(creation("t"))).topics
        assert (topic.name, topic.error_code) == ("t", Errors.STALE_BROKER_EPOCH.code)
        handled_by(node, ApiKeys.CREATE_TOPICS, fail)
        with pytest.raises(KafkaError) as unanswered:  # its response has no place for an error of all of it
            await node.quorum.ask_leader(creation("t"))
        assert unanswered.value.error is Errors.NOT_CONTROLLER

    run(tmp_path, scenario)
    assert "bug: a request handler failed" in caplog.text


def test_who_waits_for_a_leader_is_answered_as_soon_as_there_is_one(tmp_path):
    async def scenario(node):
        epoch = node.quorum.epoch
        node.quorum.resign()
        assert node.quorum.leader_id < 0
        answer = await node.quorum.ask_leader(HEARTBEAT, FOR_EVER_MS)
        assert answer.error_code == Errors.STALE_BROKER_EPOCH.code
        assert node.quorum.epoch > epoch

    run(tmp_path, scenario)


def test_nothing_is_answered_after_the_end(tmp_path):
    async def scenario(node):
        started = asyncio.Event()

        async def never(request):
            started.set()
            await asyncio.Event().wait()

        handled_by(node, ApiKeys.BROKER_HEARTBEAT, never)
        asked = asyncio.ensure_future(node.quorum.ask_leader(HEARTBEAT, FOR_EVER_MS))
        await started.wait()
        await node.quorum.stop(0)
        with pytest.raises(KafkaError) as ended:
            await asked
        assert ended.value.error is Errors.NOT_CONTROLLER
        assert not node.quorum.to_leader._answering

    run(tmp_path, scenario)


# ---------------------------------------------------------------- a controller that no other node reaches


def unreachable(node_id=9):
    """Requests of the node that leads, without a listener of controllers."""
    known = asyncio.Event()
    known.set()

    def connections():
        raise AssertionError("there is no address to connect to")

    return LeaderRequests(node_id, FOR_EVER_MS, lambda: Node(9, "", 0), known, connections)


def test_a_controller_without_a_listener_is_asked_within_the_process():
    async def scenario():
        leader = unreachable()

        async def answer(body, version):
            return body, version

        leader.own_controller = answer
        newest = API_VERSIONS[ApiKeys.BROKER_HEARTBEAT].highest
        assert await leader.ask(HEARTBEAT) == (HEARTBEAT, newest)
        assert await leader.ask(HEARTBEAT, version=1) == (HEARTBEAT, 1)
        await leader.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("has_been_asked", [False, True])
def test_a_controller_without_a_listener_that_has_ended_is_not_looked_for(has_been_asked):
    async def scenario():
        leader = unreachable()

        async def never(body, version):
            await asyncio.Event().wait()

        leader.own_controller = never
        asked = asyncio.ensure_future(leader.ask(HEARTBEAT, FOR_EVER_MS)) if has_been_asked else None
        await asyncio.sleep(0)
        await leader.stop()
        for each in (asked, leader.ask(HEARTBEAT, FOR_EVER_MS)):
            if each is not None:
                with pytest.raises(KafkaError) as ended:
                    await each
                assert ended.value.error is Errors.NOT_CONTROLLER

    asyncio.run(scenario())


# ---------------------------------------------------------------- a controller on another node


def run_with_doubles(scenario, *doubles):
    async def all_of_it():
        async with served(*doubles):
            configs = BrokerConfigs({"controller.quorum.request.timeout.ms": str(FOR_EVER_MS)})
            connections = Connections("test", "CONTROLLER", configs, None)
            try:
                await scenario(
                    connections, [Node(id, each.host, each.port) for id, each in enumerate(doubles)]
                )
            finally:
                connections.close()

    asyncio.run(all_of_it())


def requests(connections, leader):
    known = asyncio.Event()
    known.set()
    return LeaderRequests(9, FOR_EVER_MS, leader, known, lambda: connections)


def test_a_controller_that_hangs_is_not_waited_for_once_another_is_active():
    hangs = NodeDouble()

    async def scenario(connections, nodes):
        leader = nodes[0]
        asking = asyncio.ensure_future(requests(connections, lambda: leader).ask(HEARTBEAT, FOR_EVER_MS))
        await hangs.until_asked()
        leader = None  # an election: the same one may win it
        connections.look()
        await asyncio.sleep(0)
        assert not asking.done()
        leader = nodes[1]
        connections.look()
        with pytest.raises(KafkaError) as failed:
            await asking
        assert failed.value.error is Errors.NOT_CONTROLLER, "whether it had an effect is open"

    run_with_doubles(scenario, hangs, NodeDouble())


def test_topics_wait_until_the_controller_that_was_elected_is_active():
    """Its refusal is in the results: CreateTopics has no error of the whole answer."""

    def answer(request):
        error = Errors.NOT_CONTROLLER if len(double.asked) == 1 else Errors.NONE
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=each.name, error_code=error.code) for each in request.topics]
        )

    double = NodeDouble(answer)

    async def scenario(connections, nodes):
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        found = await requests(connections, lambda: nodes[0]).ask(request, FOR_EVER_MS)
        assert [each.error_code for each in found.topics] == [0]
        assert len(double.asked) == 2

    run_with_doubles(scenario, double)


def test_what_the_own_controller_refuses_while_it_begins_is_repeated_without_a_pause(monkeypatch):
    """Also when it becomes active between its refusal and the look at that: no wake-up is lost."""
    monkeypatch.setattr("bowstring.engine.quorum.leader_requests.RETRY_S", FOR_EVER_MS / 1000)
    known = asyncio.Event()
    asked = []

    async def scenario():
        requests = LeaderRequests(1, FOR_EVER_MS, lambda: Node(1, "", 0), known, lambda: None)

        async def answer(body, version):
            asked.append(version)
            if len(asked) == 1:
                requests.note_active()
            if len(asked) == 2:
                asyncio.get_running_loop().call_later(0, requests.note_active)
            error = Errors.NONE if len(asked) == 3 else Errors.NOT_CONTROLLER
            return BrokerHeartbeatResponse(error_code=error.code)

        requests.own_controller = answer
        known.set()
        async with asyncio.timeout(HANG_S):
            return await requests.ask(HEARTBEAT)

    assert asyncio.run(scenario()).error_code == 0
    assert len(asked) == 3
