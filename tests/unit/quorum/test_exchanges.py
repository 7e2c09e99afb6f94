"""Requests to the active controller while that changes."""

import asyncio

import pytest

from bowstring.engine.network.peers import Peers
from bowstring.engine.quorum.exchanges import ask_leader
from bowstring.engine.raft.voters import Node
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.node_double import NodeDouble, served
from tests.support.waiting import FOR_EVER_MS


def run(scenario, *doubles):
    async def all_of_it():
        async with served(*doubles):
            peers = Peers("test")
            try:
                await scenario(peers, [Node(id, each.host, each.port) for id, each in enumerate(doubles)])
            finally:
                peers.close()

    asyncio.run(all_of_it())


def test_a_controller_that_hangs_is_not_waited_for_once_another_is_active():
    hangs = NodeDouble()

    async def scenario(peers, nodes):
        leader = nodes[0]
        asking = asyncio.ensure_future(
            ask_leader(BrokerHeartbeatRequest(), None, lambda: leader, peers, FOR_EVER_MS)
        )
        await hangs.until_asked()
        leader = None  # an election: the same one may win it
        peers.look()
        await asyncio.sleep(0)
        assert not asking.done()
        leader = nodes[1]
        peers.look()
        with pytest.raises(KafkaError) as failed:
            await asking
        assert failed.value.error is Errors.NOT_CONTROLLER, "whether it had an effect is open"

    run(scenario, hangs, NodeDouble())


def test_topics_wait_until_the_controller_that_was_elected_is_active():
    """Its refusal is in the results: CreateTopics has no error of the whole answer."""

    def answer(request):
        error = Errors.NOT_CONTROLLER if len(double.asked) == 1 else Errors.NONE
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=each.name, error_code=error.code) for each in request.topics]
        )

    double = NodeDouble(answer)

    async def scenario(peers, nodes):
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        found = await ask_leader(request, None, lambda: nodes[0], peers, FOR_EVER_MS)
        assert [each.error_code for each in found.topics] == [0]
        assert len(double.asked) == 2

    run(scenario, double)
