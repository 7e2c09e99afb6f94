"""Producer and consumer follow a moving leader: at once if brokers name it (KIP-951), never an older one."""

import contextlib
import time

import pytest

from bowstring.clients.consumer import fetcher
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.net import metadata
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.producer import sender
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import Node, TopicPartition
from bowstring.protocol.messages.fetch import FetchRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import CLOSE
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

PARTITION = TopicPartition("t", 0)
FOR_EVER_S = FOR_EVER_MS / 1000


@pytest.fixture
def brokers():
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def no_metadata(monkeypatch):
    """Stops metadata requests and retries, so that the test depends on leaders already in the cache."""

    def stop():
        monkeypatch.setattr(metadata, "RETRY_PAUSE_S", FOR_EVER_S)
        monkeypatch.setattr(metadata, "RETRY_PAUSE_MAX_S", FOR_EVER_S)
        monkeypatch.setattr(fetcher, "RETRY_PAUSE_S", FOR_EVER_S)
        monkeypatch.setattr(sender, "LEADER_PAUSE_S", FOR_EVER_S)

    return stop


def producer_for(brokers, **options):
    slow = {"linger_ms": 0, "retry_backoff_ms": FOR_EVER_MS, "retry_backoff_max_ms": FOR_EVER_MS}
    times = {"request_timeout_ms": FOR_EVER_MS, "delivery_timeout_ms": 2 * FOR_EVER_MS}
    return Producer(brokers.bootstrap, **{**slow, **times, **options})


def consumer_for(brokers, **options):
    consumer = Consumer(brokers.bootstrap, fetch_max_wait_ms=5, **options)
    consumer.assign([PARTITION])
    consumer.seek(PARTITION, 0)
    return consumer


def read(consumer, count):
    found = []
    deadline = time.monotonic() + HANG_S
    while len(found) < count:
        found += [record.value for record in consumer.poll(timeout=0.2)]
        assert time.monotonic() < deadline
    return found


def move(brokers, leader, epoch, told=None):
    brokers.told = told
    brokers.leader, brokers.epoch = leader, epoch


# ---------------------------------------------------------------- producer


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_a_producer_goes_to_the_leader_that_the_refusal_names(brokers, no_metadata, linger_ms):
    with producer_for(brokers, linger_ms=linger_ms) as producer:
        producer.send("t", b"a").result(HANG_S)
        no_metadata()
        move(brokers, 2, 2, told=(1, 1))
        for value in (b"b", b"c"):
            producer.send("t", value).result(HANG_S)
    assert [number for number, _ in brokers.stored] == [1, 2, 2]
    assert brokers.asked(1, ProduceRequest) == 2, "one that was stored, one that was refused"


def test_metadata_of_an_older_epoch_does_not_lead_a_producer_back(brokers):
    with producer_for(brokers, metadata_max_age_ms=100) as producer:
        producer.send("t", b"a").result(HANG_S)
        move(brokers, 2, 2, told=(1, 1))
        producer.send("t", b"b").result(HANG_S)
        asked = sum(brokers.asked(number, MetadataRequest) for number in (1, 2))
        wait_until(lambda: sum(brokers.asked(number, MetadataRequest) for number in (1, 2)) > asked + 2)
        producer.send("t", b"c").result(HANG_S)
        producer.send("t", b"d").result(HANG_S)
    assert [number for number, _ in brokers.stored] == [1, 2, 2, 2]


def test_a_producer_asks_who_leads_at_once_and_tries_there(brokers):
    """Not after retry_backoff_ms, which only limits requests to a broker without newer metadata."""
    brokers.hints = False
    with producer_for(brokers) as producer:
        producer.send("t", b"a").result(HANG_S)
        move(brokers, 2, 2)
        producer.send("t", b"b").result(HANG_S)
    assert [number for number, _ in brokers.stored] == [1, 2]


def test_a_refused_batch_is_tried_again_where_nobody_knows_a_leader(brokers):
    """As far as clients can see, a leader may return to the same broker in the same epoch."""
    brokers.hints = False
    with producer_for(brokers, retry_backoff_ms=1) as producer:
        producer.send("t", b"a").result(HANG_S)
        move(brokers, 2, 1, told=(1, 1))
        future = producer.send("t", b"b")
        wait_until(lambda: brokers.asked(1, ProduceRequest) >= 4)
        brokers.leader = 1
        future.result(HANG_S)


def test_a_producer_finds_the_next_leader_of_one_that_died(brokers):
    with producer_for(brokers) as producer:
        producer.send("t", b"a").result(HANG_S)
        brokers.told = (1, 1)
        brokers.brokers[1].handlers[ProduceRequest] = lambda version, request: CLOSE
        brokers.brokers[1].handlers[MetadataRequest] = lambda version, request: CLOSE
        future = producer.send("t", b"b")
        wait_until(lambda: brokers.asked(2, MetadataRequest) >= 3)
        move(brokers, 2, 2)
        future.result(HANG_S)
    assert [number for number, _ in brokers.stored] == [1, 2]


# ---------------------------------------------------------------- consumer


def test_a_consumer_goes_to_the_leader_that_the_refusal_names(brokers, no_metadata):
    brokers.end = 1
    with consumer_for(brokers) as consumer:
        assert read(consumer, 1) == [b"0"]
        no_metadata()
        move(brokers, 2, 2, told=(1, 1))
        brokers.end = 3
        assert read(consumer, 2) == [b"1", b"2"]
        assert brokers.asked(2, FetchRequest) >= 2
        refused = brokers.asked(1, FetchRequest)
        brokers.end = 4
        assert read(consumer, 1) == [b"3"]
        assert brokers.asked(1, FetchRequest) == refused


def test_a_consumer_asks_who_leads_at_once(brokers, monkeypatch):
    monkeypatch.setattr(fetcher, "RETRY_PAUSE_S", FOR_EVER_S)
    brokers.hints = False
    brokers.end = 1
    with consumer_for(brokers) as consumer:
        assert read(consumer, 1) == [b"0"]
        move(brokers, 2, 2)
        brokers.end = 2
        assert read(consumer, 1) == [b"1"]


def test_a_consumer_finds_the_next_leader_of_one_that_died(brokers):
    brokers.end = 1
    with consumer_for(brokers) as consumer:
        assert read(consumer, 1) == [b"0"]
        brokers.told = (1, 1)
        for request in (FetchRequest, MetadataRequest):
            brokers.brokers[1].handlers[request] = lambda version, request: CLOSE
        before = brokers.asked(2, MetadataRequest)

        def asked_again():
            consumer.poll(timeout=0.05)
            return brokers.asked(2, MetadataRequest) >= before + 3

        wait_until(asked_again)
        move(brokers, 2, 2)
        brokers.end = 2
        assert read(consumer, 1) == [b"1"]


# ---------------------------------------------------------------- the clients' cache


@pytest.fixture
def cluster(brokers):
    client = NetworkClient("test")
    made = ClusterMetadata(client, parse_bootstrap(brokers.bootstrap))
    with contextlib.closing(client):
        made.await_topic("t", HANG_S)
        yield made


def test_only_newer_leaders_with_an_address_count(cluster):
    endpoints = {7: Node(7, "seven", 9092)}
    assert not cluster.learn_leader(PARTITION, 2, 1, {}), "the epoch is known"
    assert not cluster.learn_leader(PARTITION, 7, 5, {}), "nobody knows broker 7"
    assert not cluster.learn_leader(PARTITION, -1, -1, endpoints)
    assert not cluster.learn_leader(TopicPartition("t", 9), 7, 5, endpoints)
    assert not cluster.learn_leader(TopicPartition("u", 0), 7, 5, endpoints)
    version = cluster.version
    assert cluster.learn_leader(PARTITION, 7, 5, endpoints)
    assert cluster.leader(*PARTITION) == endpoints[7] and cluster.leader_epoch(*PARTITION) == 5
    assert cluster.version > version
    assert cluster.learn_leader(PARTITION, 2, 6, {}), "an address from metadata"


def test_an_older_answer_keeps_the_address_of_the_newer_leader(cluster):
    seven = Node(7, "seven", 9092)
    assert cluster.learn_leader(PARTITION, 7, 5, {7: seven})
    cluster.refresh(HANG_S)
    assert cluster.leader(*PARTITION) == seven and cluster.leader_epoch(*PARTITION) == 5


def test_questions_about_leaders_become_rarer():
    """They are sent at once at first, and seldom when brokers are away for long."""
    pauses = [metadata.retry_pause_s(wrong_s) for wrong_s in (0.0, 0.1, 0.4, 4.0, 60.0)]
    assert pauses == [metadata.RETRY_PAUSE_S] * 2 + [0.05, 0.5, metadata.RETRY_PAUSE_MAX_S]
