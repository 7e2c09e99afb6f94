"""What the Python engine does about topics that vanish under a stream, without Spark."""

import pytest

import bowstring
from bowstring.clients.errors import ConfigError, UnknownTopicError
from bowstring.clients.records import TopicPartition
from bowstring.spark import offsets
from bowstring.spark.offsets import DataLossError, OffsetPlanner
from bowstring.spark.options import read_options
from tests.support.waiting import HANG_S


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


def planner(servers, **options):
    given = {"kafka.bootstrap.servers": servers, "fetchOffset.retryIntervalMs": "10", **options}
    given = given if {"assign", "subscribe"} & options.keys() else {**given, "subscribe": "kept,goes"}
    return OffsetPlanner(read_options(given, streaming=True))


def test_a_topic_that_vanishes_and_comes_again(servers, monkeypatch):
    monkeypatch.setattr(offsets, "TOPIC_TIMEOUT_S", 0.5)
    strict, bold = planner(servers), planner(servers, failOnDataLoss="false")
    kept, goes = TopicPartition("kept", 0), TopicPartition("goes", 0)
    with bowstring.Admin(servers) as admin, bowstring.Producer(servers) as producer:
        admin.create_topics([bowstring.NewTopic("kept", 1), bowstring.NewTopic("goes", 1)])
        for _ in range(3):
            producer.send("goes", b"v").result(HANG_S)
        begin = strict.latest({})
        assert begin == {kept: 0, goes: 3}
        admin.delete_topics(["goes"])
        lost = pytest.raises(DataLossError, match=r"goes-0 are gone.*set the option failOnDataLoss")
        with lost:
            strict.latest(begin)
        end = bold.latest(begin)
        assert end == {kept: 0}
        with lost:
            strict.stream_ranges(begin, end)
        assert bold.stream_ranges(begin, end) == []
        with pytest.raises(UnknownTopicError, match="goes"):
            strict.resolve(strict.options.starting, starting=True)
        admin.create_topics([bowstring.NewTopic("goes", 1)])
        producer.send("goes", b"again").result(HANG_S)
        again = bold.latest(end)
        assert again == {kept: 0, goes: 1}
        ranges = {each.topic: (each.start, each.end) for each in bold.stream_ranges(end, again)}
        assert ranges["goes"] == (0, 1)
    strict.close()
    bold.close()


def test_an_assigned_partition_that_vanishes(servers):
    wanted = planner(servers, assign='{"assigned":[0,1]}')
    with bowstring.Admin(servers) as admin:
        admin.create_topics([bowstring.NewTopic("assigned", 1)])
        with pytest.raises(ConfigError, match=r"no partition assigned-1: check the option assign"):
            wanted.resolve(wanted.options.starting, starting=True)
        admin.create_partitions({"assigned": 2})
        begin = wanted.latest({})
        assert begin == {TopicPartition("assigned", number): 0 for number in range(2)}
        admin.delete_topics(["assigned"])
        with pytest.raises(DataLossError, match="assigned-0, assigned-1 are gone"):
            wanted.latest(begin)
    wanted.close()


def test_a_topic_that_is_made_anew_between_two_looks(servers):
    """Its offsets are unrelated to those read before, even if there are more of them now."""
    strict, bold = (planner(servers, subscribe="anew", failOnDataLoss=loss) for loss in ("true", "false"))
    anew = TopicPartition("anew", 0)
    with bowstring.Admin(servers) as admin, bowstring.Producer(servers) as producer:
        admin.create_topics([bowstring.NewTopic("anew", 1)])
        producer.send("anew", b"v").result(HANG_S)
        begin = {anew: 1}
        assert strict.latest(begin) == bold.latest(begin) == begin
        admin.delete_topics(["anew"])
        admin.create_topics([bowstring.NewTopic("anew", 1)])
        for _ in range(3):
            producer.send("anew", b"again").result(HANG_S)
        with pytest.raises(DataLossError, match="anew-0 are gone"):
            strict.latest(begin)
        gone = bold.latest(begin)
        assert gone == {}
        again = bold.latest(gone)
        assert [each[2:] for each in bold.stream_ranges(gone, again)] == [(0, 3)]
    strict.close()
    bold.close()
