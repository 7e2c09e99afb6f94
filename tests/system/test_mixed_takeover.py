"""Three nodes of Apache Kafka become three of ours, one after the other on their directories, and Kafka again.

An idempotent producer and a consumer group of KIP-848 go on meanwhile, and notice nothing. The cluster keeps the features
that Kafka gives a new one.
"""

from tests.support.acked_load import AckedLoad
from tests.support.group_reader import GroupReader, committed
from tests.support.mixed_cluster import BOTH, BOWSTRING, KAFKA, ONE_IN_FLIGHT, MixedCluster
from tests.support.waiting import wait_until

TOPIC = "t"
ASSIGNMENTS = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]


def replace(cluster, id, program) -> None:
    """One node stops, and another program starts on its directory; then it leads what it prefers."""
    cluster.end(id)
    cluster.nodes[id].program = program
    cluster.start(id)
    for index, replicas in enumerate(ASSIGNMENTS):
        cluster.wait_for_isr(TOPIC, index, replicas)
    for topic in (TOPIC, "__consumer_offsets"):
        cluster.elect_preferred(topic, through=id)
    preferred = [replicas[0] for replicas in ASSIGNMENTS]
    wait_until(lambda: [cluster.leader(TOPIC, index) for index in range(len(preferred))] == preferred)


def test_a_cluster_of_kafka_becomes_ours_and_kafka_again(tmp_path):
    cluster = MixedCluster(tmp_path, [(KAFKA, BOTH)] * 3)
    try:
        cluster.start()
        cluster.create_topic(TOPIC, ASSIGNMENTS, through=1, **{"min.insync.replicas": "2"})
        load = AckedLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENTS), **ONE_IN_FLIGHT)
        with GroupReader(cluster.bootstrap, TOPIC, **{"group.protocol": "consumer"}) as reader:
            with load:
                for program in (BOWSTRING, KAFKA):
                    for id in (1, 2, 3):
                        load.wait_for_more()
                        replace(cluster, id, program)
                        load.wait_for_more()
                        reader.wait_until_read({each: dict(records) for each, records in load.acked.items()})
            load.check()
            reader.wait_until_read(load.acked)
        assert reader.errors == []
        for index, records in load.acked.items():
            assert reader.read[index] == sorted(records.items())
        ends = [max(load.acked[index]) + 1 for index in range(len(ASSIGNMENTS))]
        assert committed(cluster.bootstrap, TOPIC, len(ASSIGNMENTS)) == ends
        cluster.check_equal_logs(TOPIC, ASSIGNMENTS)
    finally:
        cluster.stop()
