"""A consumer with a rack reads from the replica that the leader names (KIP-392), and comes back to the leader."""

import math
import time

import pytest

from bowstring.clients.consumer import fetcher
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.consumer.range_reader import RangeReader
from bowstring.clients.errors import BrokerError
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import FetchRequest
from tests.support.fake_broker import CLOSE
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import HANG_S, wait_until

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def brokers():
    with FakeCluster(3) as cluster:
        cluster.preferred = 2
        cluster.end = 3
        yield cluster


def consumer_for(brokers, **options):
    options = {"client_rack": "here", "fetch_max_wait_ms": 5, **options}
    consumer = Consumer(brokers.bootstrap, **options)
    consumer.assign([PARTITION])
    consumer.seek(PARTITION, 0)
    return consumer


def read(consumer, count):
    found = []
    deadline = time.monotonic() + HANG_S
    while len(found) < count:
        found += [record.offset for record in consumer.poll(timeout=0.2)]
        assert time.monotonic() < deadline
    return found


def fetches(brokers):
    return [brokers.asked(number, FetchRequest) for number in (1, 2, 3)]


def test_it_reads_from_the_replica_that_the_leader_names(brokers):
    with consumer_for(brokers) as consumer:
        assert read(consumer, 3) == [0, 1, 2]
        brokers.end = 5
        assert read(consumer, 2) == [3, 4]
    assert brokers.asked(1, FetchRequest) == 1, "the leader, once"
    assert brokers.asked(3, FetchRequest) == 0
    assert {request.rack_id for request in brokers.brokers[2].seen(FetchRequest)} == {"here"}


def test_it_asks_the_leader_without_a_rack(brokers):
    with consumer_for(brokers, client_rack=None) as consumer:
        assert read(consumer, 3) == [0, 1, 2]
    assert fetches(brokers)[1:] == [0, 0]


def test_other_clients_name_for_the_setting(brokers):
    with Consumer({"bootstrap.servers": brokers.bootstrap, "client.rack": "there"}) as consumer:
        consumer.assign([PARTITION])
        consumer.seek(PARTITION, 0)
        assert read(consumer, 3) == [0, 1, 2]
    assert brokers.brokers[2].seen(FetchRequest)[0].rack_id == "there"


def test_ranges_are_read_there_too(brokers):
    pytest.importorskip("pyarrow")
    where = {"topic": "t", "partition": 0, "start": 0, "end": 3}
    with RangeReader(brokers.bootstrap, **where, client_rack="here") as reader:
        assert sum(batch.num_rows for batch in reader) == 3
    assert fetches(brokers)[1] > 0


def test_arrow_polls_read_there_too(brokers):
    pytest.importorskip("pyarrow")
    with consumer_for(brokers) as consumer:
        assert consumer.poll_arrow(timeout=HANG_S).num_rows > 0
    assert brokers.asked(2, FetchRequest) > 0


def test_it_asks_the_leader_again_after_a_while(brokers):
    """metadata.max.age.ms: the replica may have fallen behind, or another be nearer."""
    with consumer_for(brokers, metadata_max_age_ms=200) as consumer:
        read(consumer, 3)
        brokers.preferred = 3

        def moved():
            consumer.poll(timeout=0.05)
            return brokers.asked(3, FetchRequest) > 0

        wait_until(moved)
        brokers.end = 4
        assert read(consumer, 1) == [3]


@pytest.mark.parametrize(
    "error",
    [
        Errors.OFFSET_OUT_OF_RANGE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_it_goes_to_the_leader_when_the_replica_refuses(brokers, error):
    """Nor does it reset its position when the replica, and not the leader, lacks the offset."""
    with consumer_for(brokers, auto_offset_reset="none") as consumer:
        read(consumer, 3)
        asked = brokers.asked(1, FetchRequest)
        brokers.preferred = 3
        brokers.end = 5
        brokers.refusals[2] = [error.code] * 1000
        assert read(consumer, 2) == [3, 4]
    assert brokers.asked(1, FetchRequest) == asked + 1 and brokers.asked(3, FetchRequest) > 0


def test_an_offset_that_the_leader_lacks_is_out_of_range(brokers):
    brokers.preferred = -1
    brokers.refusals[1] = [Errors.OFFSET_OUT_OF_RANGE.code]
    with (
        consumer_for(brokers, auto_offset_reset="none") as consumer,
        pytest.raises(BrokerError, match="not in the log"),
    ):
        read(consumer, 1)


def test_it_goes_to_the_leader_when_the_replica_dies(brokers, monkeypatch):
    monkeypatch.setattr(fetcher, "RETRY_PAUSE_S", 0.02)
    with consumer_for(brokers) as consumer:
        read(consumer, 3)
        brokers.preferred = -1
        brokers.brokers[2].handlers[FetchRequest] = lambda version, request: CLOSE
        brokers.end = 5
        assert read(consumer, 2) == [3, 4]


def test_another_leader_is_asked_anew(brokers, monkeypatch):
    kept = fetcher.ReadReplica
    monkeypatch.setattr(fetcher, "ReadReplica", lambda broker, epoch, until: kept(broker, epoch, math.inf))
    with consumer_for(brokers, metadata_max_age_ms=100) as consumer:
        read(consumer, 3)
        brokers.leader, brokers.epoch, brokers.preferred = 3, 2, -1
        wait_until(lambda: (consumer.poll(timeout=0.05), brokers.asked(3, FetchRequest))[1] > 0)


def test_a_replica_that_is_offline_is_not_asked(brokers):
    brokers.preferred = 9
    with consumer_for(brokers) as consumer:
        wait_until(lambda: (consumer.poll(timeout=0.05), brokers.asked(1, FetchRequest))[1] > 2)
        brokers.preferred = -1
        assert read(consumer, 3) == [0, 1, 2]
