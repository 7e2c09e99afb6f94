"""The sink while its broker dies and comes back: nothing missing, and nothing twice within a task."""

import collections
import threading

import pytest

import bowstring
from tests.spark.topics import read_all
from tests.support.target import BowstringBroker, KafkaBroker
from tests.support.waiting import HANG_S, pause, wait_until

ROWS = 300_000


@pytest.fixture(params=[BowstringBroker, KafkaBroker])
def own_broker(request, tmp_path):
    """A broker process that the test kills and starts again."""
    running = request.param(tmp_path / "broker")
    running.start()
    yield running
    if running.alive():
        running.kill()


def end_offset(servers, topic, partitions):
    with bowstring.Admin(servers) as admin:
        ends = admin.end_offsets([bowstring.TopicPartition(topic, each) for each in range(partitions)])
    return sum(ends.values())


def test_the_broker_is_killed_and_comes_back(spark, own_broker, make_topic):
    topic = make_topic(own_broker.bootstrap, 4)
    frame = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) key", "cast(id as string) value")
    writer = frame.write.format("bowstring").mode("append")
    writer = writer.option("kafka.bootstrap.servers", own_broker.bootstrap).option("topic", topic)
    writer = writer.option("kafka.batch.size", 4096)
    failures = []

    def run():
        try:
            writer.save()
        except Exception as error:
            failures.append(error)

    writing = threading.Thread(target=run)
    writing.start()

    def is_under_way():
        assert writing.is_alive(), failures
        return end_offset(own_broker.bootstrap, topic, 4) >= ROWS // 20

    wait_until(is_under_way)
    own_broker.kill()
    pause(0.5, "the broker is away for a while")
    own_broker.start()
    writing.join(HANG_S)
    assert not writing.is_alive()
    assert not failures, failures
    counts = collections.Counter(int(record.value) for record in read_all(own_broker.bootstrap, topic))
    assert len(counts) == ROWS
    assert set(counts.values()) == {1}


def test_delivery_times_out(spark, own_broker, make_topic):
    topic = make_topic(own_broker.bootstrap)
    frame = spark.range(0, 30 * ROWS, 1, 1).selectExpr("cast(id as string) value")
    writer = frame.write.format("bowstring").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", own_broker.bootstrap)
    killer = threading.Thread(target=kill_when_written, args=(own_broker, topic))
    killer.start()
    with pytest.raises(Exception, match=r"record\(s\) for .*-0: \d+ ms has passed since batch creation"):
        writer.option("kafka.delivery.timeout.ms", 1000).save()
    killer.join()


def kill_when_written(broker, topic):
    wait_until(lambda: end_offset(broker.bootstrap, topic, 1) > 0)
    broker.kill()


def test_a_new_cluster_at_the_same_address(spark, make_topic):
    """A producer id of the cluster before means nothing there."""
    frame = spark.range(0, 100, 1, 1).selectExpr("cast(id as string) value")
    with bowstring.Broker() as first:
        port = first.port
        for _ in range(3):
            save(frame, first.bootstrap_servers, make_topic(first.bootstrap_servers))
    with bowstring.Broker(port=port) as second:
        topic = make_topic(second.bootstrap_servers)
        for _ in range(3):
            save(frame, second.bootstrap_servers, topic)
        assert len(read_all(second.bootstrap_servers, topic)) == 300


def save(frame, servers, topic):
    writer = frame.write.format("bowstring").mode("append")
    writer.option("kafka.bootstrap.servers", servers).option("topic", topic).save()
