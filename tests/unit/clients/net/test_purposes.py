"""What a caller waits for is not behind a request that a broker keeps waiting."""

import asyncio
import contextlib

import pytest

from bowstring import aio
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.net import client as net_client
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.purposes import PURPOSES, Purpose, purpose_of
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import Node, OffsetAndMetadata, TopicPartition
from bowstring.clients.share import fetcher as share_fetcher
from bowstring.clients.share.consumer import ShareConsumer
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.fetch import FetchRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.heartbeat import HeartbeatRequest
from bowstring.protocol.messages.join_group import JoinGroupRequest
from bowstring.protocol.messages.leave_group import LeaveGroupRequest
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequest
from bowstring.protocol.messages.share_fetch import ShareFetchRequest
from bowstring.protocol.messages.sync_group import SyncGroupRequest
from tests.support.fake_broker import FakeBroker
from tests.support.fake_group import FakeGroup, Gate, poll_until
from tests.support.waiting import FOR_EVER_MS, FOR_EVER_S, HANG_S, wait_until

P = TopicPartition("t", 0)
PATIENT = {"request_timeout_ms": FOR_EVER_MS, "fetch_max_wait_ms": FOR_EVER_MS}
SETUP = {ApiVersionsRequest}
KEPT_WAITING = [FetchRequest, ShareFetchRequest, JoinGroupRequest, SyncGroupRequest]
# Of a client that reads as a member of a classic group, with the thread that sends its heartbeats.
SHARED = [
    SETUP | {FetchRequest},
    SETUP | {FindCoordinatorRequest, MetadataRequest, ListOffsetsRequest},
    SETUP | {JoinGroupRequest, SyncGroupRequest, OffsetFetchRequest, OffsetCommitRequest, LeaveGroupRequest},
]


@pytest.fixture
def broker():
    """Keeps every fetch waiting until the end of the test."""
    with FakeGroup() as made:
        gate = Gate()
        whole = made.handlers[FetchRequest]

        def fetch(version, request):
            gate.hold()
            return whole(version, request)

        made.handlers[FetchRequest] = fetch
        made.fetch_waits = gate.reached.is_set
        yield made
        gate.open.set()


def apis_by_connection(broker):
    with broker.lock:
        kinds = [set(each) for each in broker.by_connection]
    return [each for each in kinds if HeartbeatRequest not in each]


def assert_shared_as_meant(broker):
    for found in apis_by_connection(broker):
        assert any(found <= meant for meant in SHARED), found


def test_a_general_connection_has_nothing_that_a_broker_keeps_waiting():
    assert [api for api in KEPT_WAITING if purpose_of(api) is Purpose.GENERAL] == []
    assert purpose_of(MetadataRequest) is purpose_of(ListOffsetsRequest) is Purpose.GENERAL
    assert set(PURPOSES.values()) == {Purpose.FETCH, Purpose.COORDINATOR}


def test_a_member_does_not_wait_for_its_own_fetch(broker):
    consumer = Consumer(broker.bootstrap, group_id="g", auto_offset_reset="none", **PATIENT)
    consumer.subscribe(["t"])
    poll_until(consumer, broker.fetch_waits)
    consumer.commit({P: 5})
    assert consumer.committed([P]) == {P: OffsetAndMetadata(0)}
    assert consumer.end_offsets([P]) == consumer.beginning_offsets([P]) == {P: 0}
    assert consumer.partitions_for("t") == [P]
    done = []
    consumer.commit({P: 6}, asynchronous=True, on_commit=lambda offsets, error: done.append(error))
    poll_until(consumer, lambda: done == [None])
    consumer.close()
    assert len(broker.seen(FetchRequest)) == 1 and len(broker.seen(LeaveGroupRequest)) == 1
    assert_shared_as_meant(broker)


def test_aio_a_member_does_not_wait_for_its_own_fetch(broker):
    async def main():
        async with aio.Consumer(
            broker.bootstrap, group_id="g", auto_offset_reset="none", **PATIENT
        ) as consumer:
            await consumer.subscribe(["t"])
            while not broker.fetch_waits():
                await consumer.poll(0.02)
            waits = asyncio.create_task(consumer.poll(FOR_EVER_S))
            await consumer.commit({P: 5})
            assert await consumer.end_offsets([P]) == {P: 0}
            waits.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waits

    asyncio.run(main())
    assert len(broker.seen(FetchRequest)) == 1
    assert_shared_as_meant(broker)


def test_a_member_that_joins_anew_commits_and_leaves_at_once(broker):
    """The coordinator keeps its request waiting for the other members."""
    gate = Gate()
    consumer = Consumer(
        broker.bootstrap,
        group_id="g",
        assignors=("cooperative-sticky",),
        auto_offset_reset="none",
        **PATIENT,
    )
    consumer.subscribe(["t"])
    poll_until(consumer, consumer.assignment)
    broker.answers[JoinGroupRequest] = [gate, 0]
    consumer.subscribe(["t", "other"])
    poll_until(consumer, gate.reached.is_set)
    consumer.commit({P: 5})
    consumer.close()
    assert len(broker.seen(LeaveGroupRequest)) == 1
    gate.open.set()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_broker_that_waits_for_records_delays_nothing_else(bootstrap, new_topic, new_group, protocol):
    topic = new_topic()
    p = TopicPartition(topic, 0)
    consumer = Consumer(
        bootstrap, group_id=new_group, group_protocol=protocol, auto_offset_reset="earliest", **PATIENT
    )
    consumer.subscribe([topic])
    with Producer(bootstrap) as producer:
        producer.send(topic, b"1").result(HANG_S)
        assert len(consumer.poll(HANG_S)) == 1
        consumer.poll(0)  # the next fetch is under way
        consumer.commit()
        assert consumer.committed([p])[p].offset == consumer.end_offsets([p])[p] == 1
        producer.send(topic, b"2").result(HANG_S)
        assert consumer.end_offsets([p]) == {p: 2}
        assert len(consumer.poll(HANG_S)) == 1
        consumer.poll(0)
    consumer.close()
    with Consumer(bootstrap, group_id=new_group) as other:
        assert other.committed([p])[p].offset == 2


def test_a_share_consumer_does_not_wait_for_its_own_fetch(
    bootstrap, new_topic, new_group, admin, monkeypatch
):
    monkeypatch.setattr(share_fetcher, "CLOSE_TIMEOUT_S", FOR_EVER_S)
    admin.alter_configs("group", new_group, set={"share.auto.offset.reset": "earliest"})
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"1").result(HANG_S)
    consumer = ShareConsumer(bootstrap, group_id=new_group, **PATIENT)
    consumer.subscribe(topic)
    assert len(consumer.poll(HANG_S)) == 1
    assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
    consumer.poll(0.05)  # its fetch waits
    assert consumer.commit_sync() == {}
    consumer.unsubscribe()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"2").result(HANG_S)
    consumer.subscribe(topic)
    assert [record.value for record in consumer.poll(HANG_S)] == [b"2"]
    consumer.poll(0.05)  # accepts the record
    consumer.close()


def test_a_connection_that_was_closed_while_idle_costs_nothing(monkeypatch):
    monkeypatch.setattr(net_client, "IDLE_CHECK_S", 0.0)
    with FakeBroker() as broker, contextlib.closing(NetworkClient("test")) as client:
        node = Node(1, broker.host, broker.port)
        client.wait(client.send(node, MetadataRequest, MetadataRequest()))
        for each in broker.sockets:
            each.shutdown(2)
        wait_until(lambda: broker.sockets[0].fileno() < 0, "the broker's side is still open")
        assert client.wait(client.send(node, MetadataRequest, MetadataRequest())).cluster_id == "fake"
        assert len(broker.sockets) == 2 and not client.backing_off(node) and not client.last_failure(node)


def test_the_connections_of_a_broker_that_fails_count_once():
    with FakeBroker() as broker, contextlib.closing(NetworkClient("test")) as client:
        node = Node(1, broker.host, broker.port)
        asked = [
            client.send(node, MetadataRequest, MetadataRequest(), purpose=purpose)
            for purpose in Purpose
            for _ in range(2)
        ]
        for each in asked[::2]:
            client.wait(each)
        assert len(broker.sockets) == len(Purpose)
        broker.handlers[MetadataRequest] = lambda *_: Gate().hold()
        lost = [client.send(node, MetadataRequest, MetadataRequest(), purpose=purpose) for purpose in Purpose]
        for each in broker.sockets:
            each.shutdown(2)
        for each in lost:
            with pytest.raises(net_client.ConnectionLostError):
                client.wait(each)
        assert client._failures[node.host, node.port][0] == 1
