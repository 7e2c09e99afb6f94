"""Bowstring among brokers and controllers of Apache Kafka, and Kafka among ours: both lead, follow and coordinate.

A JVM takes seconds to start again, so each end of a broker shows several things. What does not depend on who
the controllers are is tried with one kind of them.
"""

import contextlib
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_partition_reassignments as ar
from bowstring.protocol.messages import delete_records as dr
from tests.support.acked_load import AckedLoad, produce_one_by_one, read_all
from tests.support.group_reader import GroupReader
from tests.support.mixed_cluster import BOTH, BOWSTRING, INTERNAL, KAFKA, ONE_IN_FLIGHT, MixedCluster, key_of
from tests.support.raw_transactions import GROUP_TYPE, TRANSACTION_TYPE, RawProducer, coordinator_of
from tests.support.transactional_load import Transfers, read_committed
from tests.support.waiting import HANG_S, wait_until
from tests.system import mixed_groups

pytestmark = pytest.mark.timeout(420)

LAYOUTS = {
    "kafka-controllers": [(KAFKA, BOTH), (KAFKA, "broker"), (BOWSTRING, "broker")],
    "our-controllers": [(BOWSTRING, BOTH), (BOWSTRING, BOTH), (BOWSTRING, BOTH), (KAFKA, "broker")],
}
THIRD = 1

with_kafkas_controllers = pytest.mark.parametrize("cluster", ["kafka-controllers"], indirect=True)
with_our_controllers = pytest.mark.parametrize("cluster", ["our-controllers"], indirect=True)


@pytest.fixture(scope="module", params=list(LAYOUTS))
def cluster(request, tmp_path_factory) -> Iterator[MixedCluster]:
    made = MixedCluster(
        tmp_path_factory.mktemp("mixed"),
        LAYOUTS[request.param],
        configs=mixed_groups.CONFIGS,
        is_secured=True,
    )
    try:
        made.start()
        made.create_internal_topics(*pair_of(made), THIRD)
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def all_run(cluster) -> Iterator[None]:
    """Starts what a test that failed has left stopped: the next one is about something else."""
    yield
    if stopped := cluster.stopped():
        cluster.start(*stopped)


def pair_of(cluster) -> tuple[int, int]:
    """A broker of Kafka and one of ours; neither is the only controller."""
    return cluster.by_program(KAFKA)[-1], cluster.by_program(BOWSTRING)[-1]


@pytest.fixture
def pair(cluster) -> tuple[int, int]:
    return pair_of(cluster)


def replicas_of(pair) -> list[tuple[int, int, int]]:
    """Three partitions that are led by both, and followed by both and a third."""
    kafka, ours = pair
    return [(kafka, ours, THIRD), (ours, kafka, THIRD), (THIRD, ours, kafka)]


def topic_of(cluster, name, pair, *, through, **configs) -> list[tuple[int, int, int]]:
    made = replicas_of(pair)
    cluster.create_topic(name, made, through=through, **configs)
    return made


def wait_for_leaders(cluster, pair, *topics) -> None:
    """Waits until both lead again, and coordinate again."""
    kafka, ours = pair
    for topic in topics:
        cluster.wait_for_preferred(topic, replicas_of(pair))
    for topic in INTERNAL:
        cluster.wait_for_preferred(topic, [(kafka, ours, THIRD), (ours, THIRD, kafka)])


@with_our_controllers
def test_replicas_of_both_hold_the_same_bytes(cluster, pair):
    made = {}
    with contextlib.ExitStack() as stack:
        loads = []
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            topic = f"bytes-{codec}"
            made[topic] = topic_of(cluster, topic, pair, through=pair[number % 2])
            options = {"compression.type": codec, "batch.num.messages": 70, **ONE_IN_FLIGHT}
            loads.append(stack.enter_context(AckedLoad(cluster.bootstrap, topic, 3, **options)))
        for load in loads:
            load.wait_for_more(count=120)
    for load in loads:
        load.check()
    for topic, assignments in made.items():
        cluster.check_equal_logs(topic, assignments)


@with_our_controllers
def test_what_is_acknowledged_survives_kills_of_both(cluster, pair):
    """Each leads and coordinates, is killed under load, comes back, catches up, and leads again. A member of a group of
    KIP-848 reads everything; members of streams groups keep their epochs and tasks.
    """
    topic = "killed"
    made = topic_of(cluster, topic, pair, through=pair[0], **{"min.insync.replicas": "2"})
    streams = [mixed_groups.StreamsGroup(cluster, topic, partition) for partition in (0, 1)]
    with (
        GroupReader(cluster.bootstrap, topic, **{"group.protocol": "consumer"}) as reader,
        AckedLoad(cluster.bootstrap, topic, 3, **ONE_IN_FLIGHT) as load,
    ):
        load.wait_for_more()
        for id in pair:
            check_groups(streams)
            cluster.kill(id)
            load.wait_for_more()
            check_groups(streams)
            reader.wait_until_read({index: dict(records) for index, records in load.acked.items()})
            cluster.start(id)
            wait_for_leaders(cluster, pair, topic)
            load.wait_for_more()
        check_groups(streams)
        reader.wait_until_read({index: dict(records) for index, records in load.acked.items()})
    load.check()
    cluster.check_equal_logs(topic, made)


class Behind:
    """A partition of which one replica is away while records are written, and others deleted."""

    def __init__(self, cluster, follower, other) -> None:
        self._cluster = cluster
        self._replicas = (follower, other)
        self._topic = f"behind-{follower}"
        cluster.create_topic(self._topic, [self._replicas], through=other)
        produce_one_by_one(cluster.bootstrap, self._topic, [b"%d" % i for i in range(10)])

    def go_on_without(self) -> None:
        """The other one leads, and its log begins where the follower's does not reach."""
        produce_one_by_one(self._cluster.bootstrap, self._topic, [b"%d" % i for i in range(10, 30)])
        self._delete(20)

    def check(self) -> None:
        """The follower begins where the other one does, leads, and has the remaining records."""
        self._cluster.wait_for_isr(self._topic, 0, self._replicas)
        self._delete(22)
        self._cluster.wait_for_preferred(self._topic, [self._replicas])
        self._delete(24)
        found = read_all(self._cluster.bootstrap, self._topic, 1, from_start=True)[0]
        assert found == [(i, b"%d" % i) for i in range(24, 30)]

    def _delete(self, offset) -> None:
        """Deletes records below an offset; the answer comes when all live replicas have done so."""
        partition = dr.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = dr.DeleteRecordsRequest(
            topics=[dr.DeleteRecordsTopic(name=self._topic, partitions=[partition])], timeout_ms=30_000
        )

        def answer():
            leader = self._cluster.leader(self._topic, 0)
            (found,) = self._cluster.ask(leader, request).topics[0].partitions
            return found if found.error_code != Errors.NOT_LEADER_OR_FOLLOWER.code else None

        found = wait_until(answer)
        assert (found.error_code, found.low_watermark) == (0, offset)


def test_all_goes_on_while_brokers_of_both_stop(cluster, pair):
    """An idempotent producer, transactions and groups of all kinds lose nothing: the other program leads and coordinates
    meanwhile, and goes on with what this one has decided. A replica that was away longer than records are kept begins
    with what is left.
    """
    topic, transfers = "stopped", "transfers"
    made = {
        each: topic_of(cluster, each, pair, through=through, **{"min.insync.replicas": "2"})
        for each, through in zip((topic, transfers), pair, strict=True)
    }
    with contextlib.ExitStack() as stack:
        load = stack.enter_context(AckedLoad(cluster.bootstrap, topic, 3, **ONE_IN_FLIGHT))
        loads = [Transfers(cluster.bootstrap, key_of(transfers, each), transfers) for each in (0, 1)]
        for each in loads:
            stack.callback(each.end)
        # Their coordinators do not depend on the controllers.
        groups = groups_of(cluster, pair, stack) if cluster.nodes[THIRD].program == KAFKA else []
        for id, other in (pair, pair[::-1]):
            behind = Behind(cluster, id, other)
            check_groups(groups)
            cluster.end(id)
            check_groups(groups)
            behind.go_on_without()
            load.wait_for_more()
            wait_for_transfers(loads)
            cluster.start(id)
            wait_for_leaders(cluster, pair, topic, transfers)
            behind.check()
            load.wait_for_more()
            wait_for_transfers(loads)
        check_groups(groups)
    load.check()
    cluster.check_equal_logs(topic, made[topic])
    check_transfers(cluster, loads, transfers)


def groups_of(cluster, pair, stack) -> list[Any]:
    """Groups of all kinds, of each kind one whose coordinator is Kafka and one whose coordinator is ours."""
    clients = stack.enter_context(mixed_groups.Clients(cluster.bootstrap))
    made: list[Any] = []
    for partition in (0, 1):
        read, shared = f"read-{partition}", f"shared-{partition}"
        topic_of(cluster, read, pair, through=pair[partition])
        cluster.create_topic(shared, [replicas_of(pair)[partition]], through=pair[partition])
        made.append(mixed_groups.ConsumerGroup(clients, read, partition))
        made.append(mixed_groups.ShareGroup(cluster, clients, shared, 1 - partition))
        made.append(mixed_groups.StreamsGroup(cluster, read, partition))
    return made


def check_groups(groups) -> None:
    for each in groups:
        each.feed()
    for each in groups:
        each.check()


def wait_for_transfers(loads) -> None:
    before = [each.count for each in loads]
    wait_until(lambda: all(t.error or t.count > n + 3 for t, n in zip(loads, before, strict=True)))


def check_transfers(cluster, loads, topic) -> None:
    for each in loads:
        each.stop()
    until = 2 * sum(len(each.committed) for each in loads)
    values = read_committed(cluster.bootstrap, topic, 3, until=until)
    for each in loads:
        each.check(values)
        assert each.committed


def diverged(cluster, attempt, leader, follower) -> str | None:
    """Kills a leader that has acknowledged (acks=1) what its follower has not; returns the topic.

    None if the follower was not a leader afterwards, because the controller had noticed its pause.
    """
    topic = f"diverges-{leader}-{follower}-{attempt}"
    cluster.create_topic(topic, [(leader, follower)], through=follower)
    produce_one_by_one(cluster.bootstrap, topic, [b"kept %d" % i for i in range(20)])
    cluster.send(follower, signal.SIGSTOP)
    try:
        # A fetch is waiting at the leader: the follower gets the first of these when it continues.
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
    """The follower once it leads; the old leader if none can."""
    (partition,) = cluster.partitions(topic, follower)
    if partition.leader_id == -1 and partition.isr_nodes == [leader]:
        return leader
    return follower if partition.leader_id == follower else 0


@pytest.mark.parametrize("who", [KAFKA, BOWSTRING])
@with_kafkas_controllers
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


@with_our_controllers
def test_partitions_move_between_both(cluster, pair):
    kafka, ours = pair
    topic = "moves"
    cluster.create_topic(topic, [(kafka,)], through=ours)
    with AckedLoad(cluster.bootstrap, topic, 1, **ONE_IN_FLIGHT) as load:
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


def committed_offset(cluster, group, topic) -> int:
    """The offset of partition 0, once no transaction holds it."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "isolation.level": "read_committed"}
    )
    (found,) = consumer.committed([TopicPartition(topic, 0)], HANG_S)
    consumer.close()
    return int(found.offset)


def is_coordinator(cluster, id, key, key_type) -> bool:
    """Whether both programs report that."""
    return {coordinator_of(cluster, through, key, key_type) for through in pair_of(cluster)} == {id}


def coordinated_by(cluster, pair, prefix, key_type) -> list[str]:
    """For each of a pair, a transactional id or a group that it coordinates, as both of them say."""
    found = [key_of(prefix, index) for index in range(len(pair))]
    for key, id in zip(found, pair, strict=True):
        wait_until(partial(is_coordinator, cluster, id, key, key_type))
    return found


def test_transactions_reach_across_both(cluster, pair):
    """Coordinators of both write markers to leaders of both, whose batches they verify; groups of both take offsets."""
    topic = "transactions"
    leaders = [replicas[0] for replicas in topic_of(cluster, topic, pair, through=pair[0])]
    groups = coordinated_by(cluster, pair, "group", GROUP_TYPE)
    ids = coordinated_by(cluster, pair, "across", TRANSACTION_TYPE)
    expected, stored = [], 0
    for coordinator, id in zip(pair, ids, strict=True):
        producer = RawProducer(cluster, coordinator, id)
        for number, commit in enumerate((True, False, True)):
            values = [b"%s %d %d" % (id.encode(), number, index) for index in range(3)]
            for index, value in enumerate(values):
                producer.produce(leaders[index], topic, index, value)
            for group in groups:
                producer.commit_offset(group, topic, 10 * coordinator + number)
            producer.end(commit=commit)
            stored += 3
            expected += values if commit else []
        for group in groups:
            assert committed_offset(cluster, group, topic) == 10 * coordinator + 2
    assert sorted(read_committed(cluster.bootstrap, topic, 3, until=len(expected))) == sorted(expected)
    everything = read_committed(cluster.bootstrap, topic, 3, until=stored, isolation="read_uncommitted")
    assert len(everything) == stored
