"""Bowstring among brokers and controllers of Apache Kafka, and Kafka among ours: both lead and follow."""

import signal
from collections.abc import Iterator
from itertools import count

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages import alter_partition_reassignments as ar
from bowstring.engine.protocol.messages import delete_records as dr
from tests.support.acked_load import AckedLoad, produce_one_by_one, read_all
from tests.support.mixed_cluster import BOTH, BOWSTRING, KAFKA, ONE_IN_FLIGHT, MixedCluster
from tests.support.raw_transactions import GROUP_TYPE, RawProducer, coordinator_of
from tests.support.transactional_load import Transfers, read_committed
from tests.support.waiting import HANG_S, wait_until

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


def topic_of(cluster, name, pair, *, through, **configs) -> list[tuple[int, int, int]]:
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
    preferred = [replicas[0] for replicas in made]
    with AckedLoad(cluster.bootstrap, topic, 3, **ONE_IN_FLIGHT) as load:
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
            wait_until(lambda: [cluster.leader(topic, index) for index in range(3)] == preferred)
            load.wait_for_more()
    load.check()
    cluster.check_equal_logs(topic, made)


def diverged(cluster, attempt, leader, follower) -> str | None:
    """Kills a leader that has acknowledged (acks=1) what its follower has not; returns the topic.

    None if the follower was not a leader afterwards, because the controller had noticed its pause.
    """
    topic = f"diverges-{leader}-{follower}-{attempt}"
    cluster.create_topic(topic, [(leader, follower)], through=follower)
    produce_one_by_one(cluster.bootstrap, topic, [b"kept %d" % i for i in range(20)])
    cluster.send(follower, signal.SIGSTOP)
    try:
        # A fetch is waiting at the leader: the follower gets the first of these when it goes on.
        produce_one_by_one(cluster.bootstrap, topic, [b"lost %d" % i for i in range(5)], acks=1)
        cluster.kill(leader)
    finally:
        cluster.send(follower, signal.SIGCONT)
    found = wait_until(lambda: decided(cluster, topic, leader, follower), every_s=0.1)
    if found == follower:
        return topic
    cluster.start(leader)
    return None


def decided(cluster, topic, leader, follower) -> int:
    """The follower once it leads; the old leader if nobody can."""
    (partition,) = cluster.partitions(topic, follower)
    if partition.leader_id == -1 and partition.isr_nodes == [leader]:
        return leader
    return follower if partition.leader_id == follower else 0


@pytest.mark.parametrize("who", [KAFKA, BOWSTRING])
def test_a_leader_that_comes_back_cuts_what_only_it_had(cluster, pair, who):
    leader, follower = pair if who == KAFKA else pair[::-1]
    topic = next(filter(None, (diverged(cluster, each, leader, follower) for each in range(10))))
    produce_one_by_one(cluster.bootstrap, topic, [b"new %d" % i for i in range(20)])
    cluster.start(leader)
    cluster.wait_for_isr(topic, 0, (leader, follower))
    cluster.check_equal_logs(topic, [(leader, follower)])
    values = [value for _, value in read_all(cluster.bootstrap, topic, 1)[0]]
    assert [each for each in values if not each.startswith(b"lost")] == [
        *(b"kept %d" % i for i in range(20)),
        *(b"new %d" % i for i in range(20)),
    ]
    assert b"lost 4" not in values
    wait_until(lambda: f"{topic}-0" in cluster.truncations(leader), lambda: cluster.truncations(leader))


def delete_records(cluster, topic, leader, offset) -> None:
    """Deletes what is below an offset; the answer comes when all live replicas have done so. A leader may hear of its
    election after others do.
    """
    partition = dr.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = dr.DeleteRecordsRequest(
        topics=[dr.DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=30_000
    )

    def answer():
        (found,) = cluster.ask(leader, request).topics[0].partitions
        return found if found.error_code != Errors.NOT_LEADER_OR_FOLLOWER.code else None

    found = wait_until(answer)
    assert (found.error_code, found.low_watermark) == (0, offset)


@pytest.mark.parametrize("who", [KAFKA, BOWSTRING])
def test_a_follower_that_is_behind_the_log_start_begins_there(cluster, pair, who):
    other, follower = pair[::-1] if who == KAFKA else pair
    topic = f"behind-{who}"
    cluster.create_topic(topic, [(follower, other)], through=other)
    produce_one_by_one(cluster.bootstrap, topic, [b"%d" % i for i in range(10)])
    cluster.end(follower)
    assert cluster.leader(topic, 0) == other
    produce_one_by_one(cluster.bootstrap, topic, [b"%d" % i for i in range(10, 30)])
    delete_records(cluster, topic, other, 20)
    cluster.start(follower)
    cluster.wait_for_isr(topic, 0, (follower, other))
    delete_records(cluster, topic, other, 22)
    cluster.elect_preferred(topic, through=other)
    wait_until(lambda: cluster.leader(topic, 0) == follower)
    delete_records(cluster, topic, follower, 24)
    found = read_all(cluster.bootstrap, topic, 1, from_start=True)[0]
    assert found == [(i, b"%d" % i) for i in range(24, 30)]


def test_partitions_move_between_both(cluster, pair):
    kafka, ours = pair
    topic = "moves"
    cluster.create_topic(topic, [(kafka,)], through=ours)
    with AckedLoad(cluster.bootstrap, topic, 1) as load:
        load.wait_for_more()
        for through, to in ((kafka, ours), (ours, kafka)):
            moved = ar.ReassignablePartition(partition_index=0, replicas=[to])
            request = ar.AlterPartitionReassignmentsRequest(
                topics=[ar.ReassignableTopic(name=topic, partitions=[moved])]
            )
            assert cluster.ask(through, request).error_code == 0
            cluster.wait_for_isr(topic, 0, [to])
            assert cluster.leader(topic, 0) == to
            load.wait_for_more()
    load.check()


# ---------------------------------------------------------------- transactions


def coordinated_by(cluster, ids, prefix, **kind) -> dict[int, str]:
    """For each of some brokers, a transactional id or a group that it coordinates."""
    found: dict[int, str] = {}
    for number in count():
        name = f"{prefix}-{number}"
        found.setdefault(coordinator_of(cluster, ids[0], name, **kind), name)
        if set(ids) <= set(found):
            return {id: found[id] for id in ids}
    raise AssertionError


def committed_offset(cluster, group, topic) -> int:
    """The offset of partition 0, once no transaction holds it."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "isolation.level": "read_committed"}
    )
    (found,) = consumer.committed([TopicPartition(topic, 0)], HANG_S)
    consumer.close()
    return int(found.offset)


def test_transactions_reach_across_both(cluster, pair):
    """Coordinators of both write markers to leaders of both, whose batches they verify; groups of both take offsets."""
    topic = "transactions"
    leaders = [replicas[0] for replicas in topic_of(cluster, topic, pair, through=pair[0])]
    groups = coordinated_by(cluster, pair, "group", key_type=GROUP_TYPE)
    ids = coordinated_by(cluster, pair, "across")
    expected, stored = [], 0
    for coordinator, id in ids.items():
        producer = RawProducer(cluster, pair[0], id)
        assert producer.coordinator == coordinator
        for number, commit in enumerate((True, False, True)):
            values = [b"%s %d %d" % (id.encode(), number, index) for index in range(3)]
            for index, value in enumerate(values):
                producer.produce(leaders[index], topic, index, value)
            for group in groups.values():
                producer.commit_offset(group, topic, 10 * coordinator + number)
            producer.end(commit=commit)
            stored += 3
            expected += values if commit else []
        for group in groups.values():
            assert committed_offset(cluster, group, topic) == 10 * coordinator + 2
    assert sorted(read_committed(cluster.bootstrap, topic, 3, until=len(expected))) == sorted(expected)
    everything = read_committed(cluster.bootstrap, topic, 3, until=stored, isolation="read_uncommitted")
    assert len(everything) == stored


def test_transactions_survive_coordinators_of_both(cluster, pair):
    """Coordinators and leaders end under load; the other program goes on with what they have decided.

    They are stopped: after a kill librdkafka may wait for as long as its calls may take.
    """
    topic = "transfers"
    made = topic_of(cluster, topic, pair, through=pair[1], **{"min.insync.replicas": "2"})
    ids = coordinated_by(cluster, pair, topic)
    loads = [Transfers(cluster.bootstrap, id, topic) for id in ids.values()]

    def wait_for_more():
        before = [each.count for each in loads]
        wait_until(lambda: all(t.error or t.count > n + 3 for t, n in zip(loads, before, strict=True)))

    wait_for_more()
    for id in pair:
        cluster.end(id)
        wait_for_more()
        cluster.start(id)
        for index, replicas in enumerate(made):
            cluster.wait_for_isr(topic, index, replicas)
        wait_for_more()
    for each in loads:
        each.stop()
    until = 2 * sum(len(each.committed) for each in loads)
    values = read_committed(cluster.bootstrap, topic, 3, until=until)
    for each in loads:
        each.check(values)
        assert each.committed
