"""Changes of the replicas of a cluster of processes, while records are written."""

import itertools
import threading

import pytest

import bowstring
from bowstring import TopicPartition
from bowstring.clients.admin.admin import Admin
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Each broker has two log directories."""
    base = tmp_path_factory.mktemp("cluster")
    places = {id: {"log.dirs": f"{base}/{id}/a,{base}/{id}/b"} for id in (1, 2, 3)}
    with bowstring.Cluster(
        3, data_dir=base / "nodes", node_config=places, linked=False, start_timeout_s=HANG_S
    ) as made:
        yield made


@pytest.fixture
def cluster(running):
    yield running
    running.repair()


@pytest.fixture
def admin(cluster):
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as made:
        yield made


class Writer:
    """Writes numbered records to partition 0 of a topic while its block runs, and reads them then."""

    def __init__(self, cluster, topic):
        self.cluster = cluster
        self.topic = topic
        self.acked = []
        self._is_over = threading.Event()
        self._producer = bowstring.Producer(cluster.bootstrap_servers, acks="all")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def _run(self):
        for number in itertools.count():
            if self._is_over.is_set():
                return
            self._producer.send(self.topic, b"%d" % number, partition=0).result(HANG_S)
            self.acked.append(number)

    def __exit__(self, error, *_):
        self._is_over.set()
        if error is not None:
            return
        self._thread.join()
        self._producer.close()
        assert self.acked
        with bowstring.Consumer(self.cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(self.topic, 0)])
            found = []
            wait_until(lambda: found.extend(consumer.poll(1.0)) or len(found) >= len(self.acked))
        assert [int(record.value) for record in found] == self.acked


def state(admin, topic):
    partition = admin.describe_topic(topic).partitions[0]
    return set(partition.replicas), set(partition.isr)


def test_a_partition_moves_between_brokers_under_load(cluster, admin):
    admin.create_topics([bowstring.NewTopic("moved", assignments={0: [1]})])
    with Writer(cluster, "moved"):
        for replicas in ([1, 2], [2, 3], [3], [1, 2, 3], [2]):
            admin.alter_reassignments({TopicPartition("moved", 0): replicas})
            wait_until(
                lambda wanted=set(replicas): state(admin, "moved") == (wanted, wanted),
                lambda: state(admin, "moved"),
            )
    assert not admin.list_reassignments()


def test_replicas_move_between_directories_under_load(cluster, admin):
    admin.create_topic("relocated", partitions=1, replication_factor=3)

    def place(broker):
        found = [
            directory.path
            for directory in admin.describe_log_dirs()[broker]
            if TopicPartition("relocated", 0) in directory.replicas
            and not directory.replicas["relocated", 0].is_future
        ]
        return found[0]

    with Writer(cluster, "relocated"):
        for broker in (1, 2, 3):
            others = {directory.path for directory in admin.describe_log_dirs()[broker]} - {place(broker)}
            target = others.pop()
            admin.move_replicas([TopicPartition("relocated", 0)], target, broker)
            wait_until(lambda broker=broker, target=target: place(broker) == target)
    assert state(admin, "relocated") == ({1, 2, 3}, {1, 2, 3})


def test_deleted_records_are_deleted_everywhere(cluster, admin):
    admin.create_topic("shortened", partitions=1, replication_factor=3)
    with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
        for number in range(10):
            producer.send("shortened", b"%d" % number, partition=0)
    assert admin.delete_records({TopicPartition("shortened", 0): 7}) == {TopicPartition("shortened", 0): 7}
    for broker in (1, 2, 3):
        admin.alter_reassignments({TopicPartition("shortened", 0): [broker]})
        wait_until(lambda broker=broker: state(admin, "shortened") == ({broker}, {broker}))
        assert admin.beginning_offsets([TopicPartition("shortened", 0)]) == {
            TopicPartition("shortened", 0): 7
        }
        admin.alter_reassignments({TopicPartition("shortened", 0): [1, 2, 3]})
        wait_until(lambda: state(admin, "shortened") == ({1, 2, 3}, {1, 2, 3}))


def test_a_topic_comes_again_after_its_deletion(cluster, admin):
    for number in range(3):
        admin.create_topic("again", partitions=2, replication_factor=3)
        with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
            assert producer.send("again", b"%d" % number, partition=0).result(HANG_S).offset == 0
        admin.delete_topics(["again"])
        wait_until(lambda: "again" not in admin.list_topics())


def test_writes_need_enough_replicas(cluster, admin):
    admin.create_topic("careful", partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"})
    with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
        producer.send("careful", b"0", partition=0).result(HANG_S)
        leader = admin.describe_topic("careful").partitions[0].leader
        others = [broker for broker in (1, 2, 3) if broker != leader]
        cluster.pause(*others[:1])
        wait_until(lambda: len(state(admin, "careful")[1]) == 2)
        producer.send("careful", b"1", partition=0).result(HANG_S)
        cluster.resume(*others[:1])
        wait_until(lambda: len(state(admin, "careful")[1]) == 3)
        producer.send("careful", b"2", partition=0).result(HANG_S)


def test_an_emptied_disk_is_filled_again(cluster, admin):
    admin.create_topic("refilled", partitions=1, replication_factor=3)
    with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
        for number in range(100):
            producer.send("refilled", b"%d" % number, partition=0)
    cluster.stop(3)
    for folder in cluster.log_dir(3).parent.glob("**/refilled-0"):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    cluster.restart(3)
    wait_until(lambda: state(admin, "refilled")[1] == {1, 2, 3})
    admin.alter_reassignments({TopicPartition("refilled", 0): [3]})
    wait_until(lambda: state(admin, "refilled") == ({3}, {3}))
    with bowstring.Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("refilled", 0)])
        found = []
        wait_until(lambda: found.extend(consumer.poll(1.0)) or len(found) >= 100)
    assert [int(record.value) for record in found] == list(range(100))
