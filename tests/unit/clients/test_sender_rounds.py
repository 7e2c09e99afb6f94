"""The sender's native rounds: they need no Python, and whatever ends them, each record is stored once and in order."""

import socket
import threading
import time

import pytest

from bowstring.clients.producer import Producer
from bowstring.clients.sender import Sender
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bowstring.engine.protocol.messages.produce import ProduceRequest
from tests.unit.clients.fake_broker import TOPIC_ID, FakeBroker, produced
from tests.unit.clients.test_producer_threads import Store

SETTINGS = {"linger_ms": 1, "batch_size": 500, "retry_backoff_ms": 1}


def stored(store):
    """The numbers in each partition, in their order."""
    return {index: [int(record.value) for record in found] for index, found in store.records().items()}


def send_numbers(producer, count, partitions, *, first=0, pause_s=0.0):
    for number in range(first, first + count):
        producer.send("t", b"%020d" % number, partition=number % partitions)
        if pause_s and not number % 50:
            time.sleep(pause_s)


def held(store, count, partitions):
    """Whether each partition has all of its numbers, in order."""
    return stored(store) == {index: list(range(index, count, partitions)) for index in range(partitions)}


def test_rounds_need_no_python(monkeypatch):
    passes = []
    make_pass = Sender._pass
    monkeypatch.setattr(Sender, "_pass", lambda self: passes.append(make_pass(self)))
    with FakeBroker(partitions=3) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 300, 3)
            producer.flush(10)
            before, requests_before = len(passes), producer.metrics()["request-total"]
            send_numbers(producer, 9_000, 3, first=300)
            producer.flush(30)
            requests = producer.metrics()["request-total"] - requests_before
            assert len(passes) - before <= requests / 10
        assert held(store, 9_300, 3)


@pytest.mark.parametrize("piece", [1, 7, 40])
def test_answers_that_come_in_pieces(piece):
    def dribble(connection, data):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), piece):
            connection.sendall(data[at : at + piece])
            time.sleep(0.0001)

    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        broker.write = dribble
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 1_000, 2)
        assert held(store, 1_000, 2)


def test_answers_in_one_piece():
    """Several at once, and the beginning of the next."""
    gathered, lock = bytearray(), threading.Lock()

    def gather(connection, data):
        with lock:
            gathered.extend(data)
            if len(gathered) >= 150:
                connection.sendall(gathered[:-3])
                del gathered[:-3]

    def give_all():
        while not done.is_set():
            with lock:
                broker.sockets[-1].sendall(gathered)
                gathered.clear()
            time.sleep(0.005)

    done = threading.Event()
    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 100, 2)
            producer.flush(10)
            broker.write = gather
            giver = threading.Thread(target=give_all)
            giver.start()
            send_numbers(producer, 2_000, 2, first=100)
            producer.flush(30)
            done.set()
            giver.join()
            broker.write = lambda connection, data: connection.sendall(data)
        assert held(store, 2_100, 2)


def test_answers_larger_than_the_buffer():
    with FakeBroker(partitions=2_000) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, linger_ms=300, retry_backoff_ms=1) as producer:
            for turn in range(3):
                send_numbers(producer, 2_000, 2_000, first=turn * 2_000)
                producer.flush(30)
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
    assert "was not the next in line" in caplog.text


def test_metadata_that_is_asked_for_all_the_time():
    with FakeBroker(partitions=2) as broker:
        store = Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, metadata_max_age_ms=5, **SETTINGS) as producer:
            send_numbers(producer, 6_000, 2, pause_s=0.002)
        assert len(broker.seen(MetadataRequest)) > 5
        assert held(store, 6_000, 2)


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_leaders_that_move(linger_ms):
    leaders, partitions = {}, 4
    with FakeBroker() as one, FakeBroker() as other:
        store = Store(one, 1, 0.0)
        brokers = {1: one, 2: other}

        def metadata(version, request):
            return MetadataResponse(
                brokers=[
                    MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port)
                    for node, broker in brokers.items()
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

        def produce_at(node):
            def produce(version, request):
                asked = {part.index for topic in request.topic_data for part in topic.partition_data}
                if any(leaders[index] != node for index in asked):
                    return produced(request, error=Errors.NOT_LEADER_OR_FOLLOWER.code)
                return store.produce(version, request)

            return produce

        for node, broker in brokers.items():
            broker.handlers |= {MetadataRequest: metadata, ProduceRequest: produce_at(node)}
        leaders |= {index: 1 + index % 2 for index in range(partitions)}
        with Producer(one.bootstrap, **{**SETTINGS, "linger_ms": linger_ms}) as producer:
            for turn in range(8):
                send_numbers(producer, 1_000, partitions, first=turn * 1_000, pause_s=0.001)
                leaders |= {index: 3 - node for index, node in leaders.items() if (index + turn) % 3}
        assert held(store, 8_000, partitions)
    assert len(one.seen(ProduceRequest)) > 5 and len(other.seen(ProduceRequest)) > 5


def test_an_idle_producer_sleeps():
    """The rounds do not turn when there is nothing to do."""
    with FakeBroker() as broker:
        Store(broker, 1, 0.0)
        with Producer(broker.bootstrap, **SETTINGS) as producer:
            send_numbers(producer, 100, 1)
            producer.flush(10)
            began = time.process_time()
            time.sleep(1.0)
            assert time.process_time() - began < 0.2
