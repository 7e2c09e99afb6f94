"""The sender's native rounds: they need no Python; however they end, records are stored once and in order."""

import os
import socket
import threading
import time

import pytest

from bowstring.clients.net import connection
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.producer.producer import Producer
from bowstring.clients.producer.sender import EPOCH_MAX
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.assembled_sender import assembled, connections
from tests.support.fake_broker import TOPIC_ID, FakeBroker, produced
from tests.support.produced_batches import Store, identity
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause, wait_until

SETTINGS = {"linger_ms": 1, "batch_size": 500, "retry_backoff_ms": 1}


def stored(store):
    """The numbers in each partition, in their order."""
    return {index: [int(record.value) for record in found] for index, found in store.records().items()}


def send_numbers(producer, count, partitions, *, first=0, pause_s=0.0):
    for number in range(first, first + count):
        producer.send("t", b"%020d" % number, partition=number % partitions)
        if pause_s and not number % 50:
            pause(pause_s, "the pace of a load")


def held(store, count, partitions):
    """Whether each partition has all of its numbers, in order."""
    return stored(store) == {index: list(range(index, count, partitions)) for index in range(partitions)}


def test_rounds_need_no_python():
    with FakeBroker(partitions=3) as broker:
        store = Store(broker, 1, 0.0)
        producer, sender = assembled(broker, **SETTINGS)
        with producer:
            send_numbers(producer, 300, 3)
            producer.flush(HANG_S)
            before, requests_before = sender.passes, producer.metrics()["request-total"]
            send_numbers(producer, 9_000, 3, first=300)
            producer.flush(HANG_S)
            requests = producer.metrics()["request-total"] - requests_before
            assert sender.passes - before <= requests / 10
        assert held(store, 9_300, 3)


@pytest.mark.parametrize("piece", [1, 7, 40])
def test_answers_that_come_in_pieces(piece):
    def dribble(peer, data):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), piece):
            peer.sendall(data[at : at + piece])
            pause(0.0001, "the pieces come apart")

    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        broker.write = dribble
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 1_000, 2)
        assert held(store, 1_000, 2)


def test_answers_in_one_piece():
    """Several answers at once, and the beginning of the next."""
    gathered, lock = bytearray(), threading.Lock()

    def gather(peer, data):
        with lock:
            gathered.extend(data)
            if len(gathered) >= 150:
                peer.sendall(gathered[:-3])
                del gathered[:-3]

    def give_all():
        while not done.is_set():
            with lock:
                broker.sockets[-1].sendall(gathered)
                gathered.clear()
            pause(0.005, "answers gather")

    done = threading.Event()
    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 100, 2)
            producer.flush(HANG_S)
            broker.write = gather
            giver = threading.Thread(target=give_all)
            giver.start()
            send_numbers(producer, 2_000, 2, first=100)
            producer.flush(HANG_S)
            done.set()
            giver.join()
            broker.write = lambda peer, data: peer.sendall(data)
        assert held(store, 2_100, 2)


def test_answers_larger_than_the_buffer():
    with FakeBroker(partitions=2_000) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=300, retry_backoff_ms=1) as producer:
            for turn in range(3):
                send_numbers(producer, 2_000, 2_000, first=turn * 2_000)
                producer.flush(HANG_S)
        assert (
            max(len(request.topic_data[0].partition_data) for request in broker.seen(ProduceRequest)) > 1_500
        )
        assert held(store, 6_000, 2_000)


def test_answers_that_make_no_sense(caplog):
    answers = []

    def spoil(data):
        answers.append(data)
        return b"\x7f" + data[1:] if not len(answers) % 40 else data

    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        broker.spoil = spoil
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 4_000, 2, pause_s=0.002)
        assert held(store, 4_000, 2)
    assert "out of order" in caplog.text


def test_metadata_that_is_asked_for_all_the_time():
    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, metadata_max_age_ms=5, **SETTINGS) as producer:
            send_numbers(producer, 6_000, 2, pause_s=0.002)
        assert len(broker.seen(MetadataRequest)) > 5
        assert held(store, 6_000, 2)


def one_cluster(leaders, addresses):
    """Answers metadata requests for brokers by node id, and leaders by partition."""

    def metadata(version, request):
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host=host, port=port)
                for node, (host, port) in addresses.items()
            ],
            controller_id=1,
            cluster_id="fake",
            topics=[
                MetadataResponseTopic(
                    name="t",
                    topic_id=TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index, leader_id=node, replica_nodes=[1, 2], isr_nodes=[1, 2]
                        )
                        for index, node in sorted(leaders.items())
                    ],
                )
                for _ in request.topics or []
            ],
        )

    return metadata


def address(broker):
    return broker.host, broker.port


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_leaders_that_move(linger_ms):
    partitions = 4
    leaders = {index: 1 + index % 2 for index in range(partitions)}
    with FakeBroker() as one, FakeBroker() as other:
        store = Store(one, 1, 0.0)

        def produce_at(node):
            def produce(version, request):
                asked = {part.index for topic in request.topic_data for part in topic.partition_data}
                if any(leaders[index] != node for index in asked):
                    return produced(request, error=Errors.NOT_LEADER_OR_FOLLOWER.code)
                return store.produce(version, request)

            return produce

        metadata = one_cluster(leaders, {1: address(one), 2: address(other)})
        for node, broker in ((1, one), (2, other)):
            broker.handlers |= {MetadataRequest: metadata, ProduceRequest: produce_at(node)}
        with Producer(one.bootstrap, **{**SETTINGS, "linger_ms": linger_ms}) as producer:
            for turn in range(8):
                send_numbers(producer, 1_000, partitions, first=turn * 1_000, pause_s=0.001)
                leaders |= {index: 3 - node for index, node in leaders.items() if (index + turn) % 3}
        assert held(store, 8_000, partitions)
    assert len(one.seen(ProduceRequest)) > 5 and len(other.seen(ProduceRequest)) > 5


class FirstBroker(ClusterMetadata):
    """Sends metadata requests to the broker with the lowest id."""

    def any_node(self):
        return self.brokers[min(self.brokers)] if self.brokers else super().any_node()


def test_a_connection_that_breaks_when_metadata_is_asked_for():
    """Its unsent bytes go nowhere else, although another broker's socket gets the same file descriptor."""
    leaders = {0: 1, 1: 2}
    with FakeBroker() as one, FakeBroker() as other:
        store = Store(one, 1, 0.0)

        def refuse_once(version, request):
            one.handlers[ProduceRequest] = store.produce
            store.produce(version, request)
            return produced(request, error=Errors.DUPLICATE_SEQUENCE_NUMBER.code)

        metadata = one_cluster(leaders, {1: address(one), 2: address(other)})
        for broker in (one, other):
            broker.handlers |= {MetadataRequest: metadata, ProduceRequest: store.produce}
        producer, sender = assembled(one, FirstBroker, linger_ms=0, request_timeout_ms=60_000)
        with producer:
            for number in range(0, 10, 2):
                producer.send("t", b"%d" % number, partition=0).result(HANG_S)
            futures, gaps = [], []
            (breaking,) = connections(sender)

            def ask_again(_):
                sender.cluster.invalidate()
                gaps.extend(
                    os.open(os.devnull, os.O_RDONLY) for _ in range(30)
                )  # the next descriptor is that one's
                pause(0.1, "so long ago was the last time")
                breaking.socket.shutdown(socket.SHUT_RDWR)  # the next write fails
                futures.extend(producer.send("t", b"%d" % number, partition=number % 2) for number in (12, 1))

            one.handlers[ProduceRequest] = refuse_once
            producer.send("t", b"10", partition=0, on_delivery=ask_again).result(HANG_S)
            wait_until(lambda: len(futures) == 2)
            assert [future.result(HANG_S).partition for future in futures] == [0, 1]
        assert breaking.state == connection.CLOSED
        for gap in gaps:
            os.close(gap)
    assert stored(store) == {0: [0, 2, 4, 6, 8, 10, 12], 1: [1]}


def test_a_broker_whose_name_does_not_resolve():
    """Its batches go to the next leader at once, not only after a request timeout."""
    leaders = {0: 1, 1: 2}
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        addresses = {1: address(broker), 2: ("no-such-host.invalid", 9092)}
        broker.handlers[MetadataRequest] = one_cluster(leaders, addresses)
        with Producer(broker.bootstrap, linger_ms=5, retry_backoff_max_ms=100) as producer:
            producer.partitions_for("t")
            futures = [producer.send("t", b"%d" % number, partition=number) for number in range(2)]
            futures[0].result(HANG_S)
            pause(0.5, "nothing else happens meanwhile")
            leaders[1] = 1
            futures[1].result(HANG_S)
    assert stored(store) == {0: [0], 1: [1]}


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("in_flight", [1, 5])
def test_sockets_smaller_than_a_request(in_flight, closes):
    with FakeBroker() as broker:
        store = Store(broker, 1, 0.0)
        broker.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        began = time.monotonic()
        patient = {"request_timeout_ms": FOR_EVER_MS, "delivery_timeout_ms": 2 * FOR_EVER_MS}
        producer, sender = assembled(broker, linger_ms=5, max_in_flight=in_flight, **patient)
        with producer:
            for number in range(5):
                producer.send("t", b"%d" % number).result(HANG_S)
            for each in connections(sender):
                each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
            for number in range(5, 65):
                producer.send("t", b"%d" % number + b" " * 500_000)
            if not closes:
                producer.flush(HANG_S)
        assert time.monotonic() - began < HANG_S  # a stalled request waits for request_timeout_ms
        assert held(store, 65, 1)


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_nothing_goes_without_a_number(linger_ms):
    """The epochs of a producer id are used up: all batches wait until there is another id."""
    ids = [(7, EPOCH_MAX - 1), (8, 0)]
    sent, refused = [], threading.Event()

    def identify(version, request):
        if len(ids) == 1:
            pause(0.3, "a slow broker")
        producer_id, epoch = ids.pop(0)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)

    def produce(version, request):
        answer = produced(request)
        for part, told in zip(
            request.topic_data[0].partition_data, answer.responses[0].partition_responses, strict=True
        ):
            sent.append(identity(bytes(part.records))[0])
            if part.index == 0 and len(sent) > 20 and not refused.is_set():
                refused.set()
                told.error_code = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code
        return answer

    with FakeBroker(partitions=2) as broker:
        broker.handlers |= {InitProducerIdRequest: identify, ProduceRequest: produce}
        with Producer(broker.bootstrap, **{**SETTINGS, "linger_ms": linger_ms}) as producer:
            ends, hangs = time.monotonic() + 1, time.monotonic() + HANG_S
            number = 0
            while (now := time.monotonic()) < ends or (8 not in sent and now < hangs):
                send_numbers(producer, 20, 2, first=number, pause_s=0.0002)
                number += 20
    assert not ids
    assert set(sent) == {7, 8} and sent == sorted(sent)


def test_every_part_of_a_pending_is_set():
    """Channels make Pending objects without its __init__."""
    made = []
    with FakeBroker() as broker:
        Store(broker, 1, 0.0)
        producer, sender = assembled(broker, **SETTINGS)
        with producer:
            for number in range(3_000):
                producer.send(
                    "t",
                    b"%020d" % number,
                    on_delivery=lambda _: made.extend(
                        pending for each in connections(sender) for pending in each.in_flight
                    ),
                )
    assert len(made) > 10
    assert all(hasattr(pending, name) for pending in made for name in connection.Pending.__slots__)


def test_an_idle_producer_sleeps():
    """The rounds do not turn when there is nothing to do."""
    with FakeBroker() as broker:
        Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 100, 1)
            producer.flush(HANG_S)
            began = time.process_time()
            pause(1.0, "nothing happens in it")
            assert time.process_time() - began < 0.2
