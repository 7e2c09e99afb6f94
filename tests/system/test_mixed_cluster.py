"""Bowstring among brokers and controllers of Apache Kafka, and Kafka among ours: both lead and follow."""

import signal
from collections.abc import Iterator

import pytest

from bowstring.engine.protocol.messages import delete_records as dr
from tests.support.acked_load import AckedLoad
from tests.support.mixed_cluster import BOTH, BOWSTRING, KAFKA, MixedCluster

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


def topic_of(cluster, name, pair, *, through) -> list[tuple[int, ...]]:
    """Creates a topic whose partitions are led by both, and followed by both and a third."""
    kafka, ours = pair
    third = 1
    made = [(kafka, ours), (ours, kafka), (kafka, ours, third), (ours, kafka, third), (third, ours, kafka)]
    cluster.create_topic(name, made, through=through, **{"min.insync.replicas": "1"})
    return made


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_replicas_of_both_hold_the_same_bytes(cluster, pair, codec):
    topic = f"bytes-{codec}"
    through = pair[codec > "l"]
    made = topic_of(cluster, topic, pair, through=through)
    load = AckedLoad(cluster.bootstrap, topic, len(made), **{"compression.type": codec})
    with load:
        load.wait_for_more(count=300)
    load.check()
    cluster.check_equal_logs(topic, made)
