"""Where groups and transactions are coordinated: the leader of their partition, at the listener of the request."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.api import find_coordinator
from bowstring.engine.coordinators.coordinators import Coordinators
from bowstring.engine.metadata.image import BrokerImage, Endpoint, PartitionImage
from bowstring.engine.metadata.names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.requests.request import Request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.fake_authorizer import ALLOWS_ALL

LISTENER = Listener("EXTERNAL", "own.example", 9001)


def broker_image(id, **ports):
    endpoints = tuple(Endpoint(name, f"broker-{id}.example", port, 0) for name, port in ports.items())
    return BrokerImage(id, 1, bytes(16), endpoints, None, False, ())


def partition(leader):
    return PartitionImage((1, 2), (1, 2), leader, 0, 0, ())


def found(leaders, *, coordinates=True, version=6, key_type=0):
    """Returns the coordinator of a key of the last partition; this broker is 1."""

    async def ensure_topic():
        """Does nothing: the topic may not be in the image yet."""

    name = TRANSACTIONS_TOPIC if key_type else GROUPS_TOPIC
    topics = {name: SimpleNamespace(partitions=[partition(leader) for leader in leaders])}
    coordinator = SimpleNamespace(
        ensure_topic=ensure_topic,
        partition_of=lambda key: max(0, len(leaders) - 1),
        coordinates=lambda key: coordinates,
        start=lambda: None,
    )
    metadata = SimpleNamespace(
        image=SimpleNamespace(
            topics=topics if leaders else {},
            brokers={
                1: broker_image(1, INTERNAL=8001, EXTERNAL=9001),
                2: broker_image(2, INTERNAL=8002, EXTERNAL=9002),
                3: broker_image(3, INTERNAL=8003),
            },
        )
    )
    body = FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g"])
    request = Request(api_key=10, version=version, body=body, listener=LISTENER)
    coordinators = Coordinators({name: lambda: coordinator})

    async def answers():
        answer = await find_coordinator.handle(
            request,
            node_id=1,
            metadata=metadata,
            coordinators=coordinators,
            authorizer=ALLOWS_ALL,
        )
        return answer.coordinators if version >= 4 else [answer]

    (each,) = asyncio.run(answers())
    return each.error_code, each.node_id, each.host, each.port


@pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transaction"])
@pytest.mark.parametrize("version", [3, 6])
def test_the_leader_of_the_partition(version, key_type):
    how = {"version": version, "key_type": key_type}
    assert found([1, 2], **how) == (0, 2, "broker-2.example", 9002)
    assert found([2, 1], **how) == (0, 1, "own.example", 9001)


@pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transaction"])
@pytest.mark.parametrize(
    ("leaders", "coordinates"),
    [([], True), ([-1], True), ([3], True), ([9], True), ([1], False)],
    ids=["no topic", "no leader", "no such listener", "unknown broker", "not loaded"],
)
def test_no_coordinator_for_now(leaders, coordinates, key_type):
    code = Errors.COORDINATOR_NOT_AVAILABLE.code
    assert found(leaders, coordinates=coordinates, key_type=key_type) == (code, -1, "", -1)
