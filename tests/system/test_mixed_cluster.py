"""Bowstring among brokers and controllers of Apache Kafka, and Kafka among ours: both lead and follow."""

import signal
from collections.abc import Iterator

import pytest

from bowstring.engine.protocol.messages import delete_records as dr
from tests.support.acked_load import AckedLoad
from tests.support.mixed_cluster import BOTH, BOWSTRING, KAFKA, MixedCluster
from tests.support.waiting import wait_until

LAYOUTS = {
    "kafka-controllers": [(KAFKA, BOTH), (KAFKA, "broker"), (BOWSTRING, "broker")],
    "our-controllers": [(BOWSTRING, BOTH), (BOWSTRING, BOTH), (BOWSTRING, BOTH), (KAFKA, "broker")],
}


@pytest.fixture(scope="module", params=list(LAYOUTS))
def cluster(request, tmp_path_factory) -> Iterator[MixedCluster]:
    made = MixedCluster(tmp_path_factory.mktemp("mixed"), LAYOUTS[request.param])
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def pair(cluster) -> tuple[int, int]:
    """A broker of Kafka and one of ours; neither is the only controller."""
    return cluster.by_program(KAFKA)[-1], cluster.by_program(BOWSTRING)[-1]


def topic_of(cluster, name, pair, *, through, **configs) -> list[tuple[int, ...]]:
    """Creates a topic whose partitions are led by both, and followed by both and a third."""
    kafka, ours = pair
    third = 1
    made = [(kafka, ours, third), (ours, kafka, third), (third, ours, kafka)]
    cluster.create_topic(name, made, through=through, **configs)
    return made


def test_replicas_of_both_hold_the_same_bytes(cluster, pair):
    made = {}
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        topic = f"bytes-{codec}"
        made[topic] = topic_of(cluster, topic, pair, through=pair[number % 2])
        options = {"compression.type": codec, "batch.num.messages": 70}
        with AckedLoad(cluster.bootstrap, topic, 3, **options) as load:
            load.wait_for_more(count=300)
        load.check()
    for topic, assignments in made.items():
        cluster.check_equal_logs(topic, assignments)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_what_is_acknowledged_survives_brokers_of_both(cluster, pair, number):
    """Each leads, is ended under load, comes back, catches up, and leads again."""
    topic = f"survives-{number.name}"
    made = topic_of(cluster, topic, pair, through=pair[0], **{"min.insync.replicas": "2"})
    with AckedLoad(cluster.bootstrap, topic, 3) as load:
        load.wait_for_more()
        for id in pair:
            cluster.end(id, number)
            for index, replicas in enumerate(made):
                cluster.wait_for_isr(topic, index, set(replicas) - {id})
            load.wait_for_more()
            cluster.start(id)
            for index, replicas in enumerate(made):
                cluster.wait_for_isr(topic, index, replicas)
            cluster.elect_preferred(topic, through=pair[1])
            for index, replicas in enumerate(made):
                wait_until(lambda index=index, leader=replicas[0]: cluster.leader(topic, index) == leader)
            load.wait_for_more()
    load.check()
    cluster.check_equal_logs(topic, made)
