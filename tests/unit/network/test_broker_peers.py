"""Exchanges with brokers end when the image says that nothing will come of them."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.metadata.image import BrokerImage, ClusterImage, Endpoint
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.support.node_double import NodeDouble, served
from tests.support.waiting import FOR_EVER_S

LISTENER = "BETWEEN"


class Cluster:
    """An image with brokers 1, 2, …, and the connections to them."""

    def __init__(self, *doubles):
        self.image = ClusterImage()
        for id, double in enumerate(doubles, 1):
            listener = (Endpoint("OTHER", "nowhere", 1, 0), Endpoint(LISTENER, double.host, double.port, 0))
            self.image.brokers[id] = BrokerImage(id, 7, b"", listener, None, fenced=False, directories=())
        self.peers = BrokerPeers(self, LISTENER)
        self.leader = 1

    def change(self, **broker):
        self.image.brokers[1] = self.image.brokers[1]._replace(**broker)

    def ask(self, purpose="test", id=1):
        return asyncio.ensure_future(
            self.peers.exchange(
                *(purpose, id, ListOffsetsRequest(), (1, 11)),
                timeout_s=FOR_EVER_S,
                is_wanted=lambda: self.leader == id,
            )
        )


def run(scenario, *doubles):
    async def all_of_it():
        async with served(*doubles):
            cluster = Cluster(*doubles)
            try:
                await scenario(cluster)
            finally:
                cluster.peers.close()

    asyncio.run(all_of_it())


CHANGES = {
    "fenced": lambda cluster: cluster.change(fenced=True),
    "not registered": lambda cluster: cluster.image.brokers.clear(),
    "started anew": lambda cluster: cluster.change(epoch=8),
    "the leader is elsewhere": lambda cluster: setattr(cluster, "leader", 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_broker_that_hangs_is_not_waited_for_once_the_image_has_lost_it(change):
    double = NodeDouble()

    async def scenario(cluster):
        asking = cluster.ask()
        await double.until_asked()
        cluster.peers.look()
        change(cluster)
        cluster.peers.look()
        cluster.peers.look()  # each change of the image
        with pytest.raises(NoAnswerError):
            await asking

    run(scenario, double)


def test_a_change_that_concerns_another_broker_ends_nothing():
    double = NodeDouble()

    async def scenario(cluster):
        asking = cluster.ask()
        await double.until_asked()
        cluster.image.brokers[2] = cluster.image.brokers[1]._replace(id=2, fenced=True)
        cluster.peers.look()
        await asyncio.sleep(0)
        assert not asking.done()
        asking.cancel()

    run(scenario, double)


def test_a_broker_that_has_lost_its_place_may_still_answer():
    """It was about to: its answer is worth more than a second request."""
    double = NodeDouble(lambda request: ListOffsetsResponse())

    async def scenario(cluster):
        asking = cluster.ask()
        await double.until_asked()
        cluster.leader = 2
        cluster.peers.look()
        assert isinstance(await asking, ListOffsetsResponse)

    run(scenario, double)


def test_who_is_fenced_already_is_not_asked():
    double = NodeDouble()

    async def scenario(cluster):
        cluster.change(fenced=True)
        with pytest.raises(NoAnswerError):
            await cluster.ask()
        assert double.asked == []
        cluster.image.brokers.clear()
        with pytest.raises(NoAnswerError):
            await cluster.ask()

    run(scenario, double)


def test_who_waits_for_its_turn_and_gives_up_leaves_the_connection_to_the_other():
    """Two requests for one purpose; the second one's leader has moved."""
    double = NodeDouble()

    async def scenario(cluster):
        first = cluster.ask()
        await double.until_asked()
        wanted = SimpleNamespace(is_so=True)
        second = asyncio.ensure_future(
            cluster.peers.exchange(
                *("test", 1, ListOffsetsRequest(), (1, 11)),
                timeout_s=FOR_EVER_S,
                is_wanted=lambda: wanted.is_so,
            )
        )
        await asyncio.sleep(0)
        wanted.is_so = False
        cluster.peers.look()
        with pytest.raises(NoAnswerError):
            await second
        assert not first.done() and len(double.asked) == 1
        first.cancel()

    run(scenario, double)
