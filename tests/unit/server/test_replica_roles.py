"""Data planes that ReplicaManager drives, with a controller that commits every request."""

import pytest

from bowstring.engine.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from bowstring.engine.replication.replica_manager import ReplicaManager
from bowstring.protocol.messages import alter_partition as messages
from tests.support.plane_requests import batch, only, produce
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC, TOPIC_ID
from tests.support.waiting import wait_until

KEY = (TOPIC_ID, 0)
LAG_MS = 200


class NoLogs:
    """The planes serve their logs already."""

    def create(self, image, topic, partition):
        return True

    def remove(self, topic, partition):
        """Nothing to do."""


class Cluster:
    """Three planes, their managers, and the image that all of them apply."""

    def __init__(self, directory):
        self.planes = Planes(directory, lag_max_ms=LAG_MS, wait_max_ms=20)
        self.managers = [
            ReplicaManager(broker, self.planes.replicas[broker], NoLogs(), self.address)
            for broker in range(3)
        ]
        self.state = PartitionImage((0, 1, 2), (0, 1, 2), 0, 1, 1, (b"d" * 16,) * 3)
        self.unreachable: set[int] = set()

    def address(self, broker):
        return ("127.0.0.1", self.planes.served[broker.id].port)

    def publish(self, **changes):
        self.state = self.state._replace(partition_epoch=self.state.partition_epoch + 1, **changes)
        image = ClusterImage()
        topic = TopicImage(TOPIC, TOPIC_ID)
        topic.partitions.append(self.state)
        image.topics[TOPIC] = image.topics_by_id[TOPIC_ID] = topic
        for broker in range(3):
            image.brokers[broker] = BrokerImage(broker, 100 + broker, b"", (), None, False, ())
        for broker, manager in enumerate(self.managers):
            if broker not in self.unreachable:
                manager.apply(image, [KEY])

    def step(self):
        """Lets the leader propose, and commits its proposal."""
        leader = self.state.leader
        self.planes.replicas[leader].check_lag()
        events, self.planes.events[leader] = self.planes.events[leader], []
        self.managers[leader].on_events(events)
        request = self.managers[leader].next_request(0, 100 + leader)
        if request is None:
            return
        (wanted,) = request.topics[0].partitions
        assert (wanted.leader_epoch, wanted.partition_epoch) == (
            self.state.leader_epoch,
            self.state.partition_epoch,
        )
        assert all(each.broker_epoch == 100 + each.broker_id for each in wanted.new_isr_with_epochs)
        isr = [each.broker_id for each in wanted.new_isr_with_epochs]
        self.state = self.state._replace(in_sync=tuple(isr), partition_epoch=self.state.partition_epoch + 1)
        answer = messages.AlterPartitionResponsePartitionData(
            partition_index=0,
            leader_id=leader,
            leader_epoch=self.state.leader_epoch,
            isr=isr,
            partition_epoch=self.state.partition_epoch,
        )
        topic = messages.AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[answer])
        self.managers[leader].answered(messages.AlterPartitionResponse(topics=[topic]), 0)

    def await_isr(self, isr):
        def reached():
            self.step()
            return set(self.state.in_sync) == isr

        wait_until(reached, lambda: self.state)


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.planes.close()


def test_a_broker_leaves_the_isr_and_comes_back(cluster):
    cluster.unreachable = {2}
    cluster.publish()
    client = cluster.planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)
    cluster.await_isr({0, 1})
    assert only(client.receive(0, 9)).error_code == 0
    cluster.unreachable = set()
    cluster.publish()
    cluster.await_isr({0, 1, 2})
    assert only(client.call(produce(batch(b"b"), 9, acks=-1), 9)).error_code == 0
    cluster.planes.await_equal()


def test_leaders_change_without_loss(cluster):
    cluster.publish()
    stored = []
    for epoch in range(2, 12):
        leader = cluster.state.leader
        client = cluster.planes.client(leader)
        for i in range(5):
            value = b"%d-%d" % (epoch, i)
            assert only(client.call(produce(batch(value), 9, acks=-1), 9)).error_code == 0
            stored.append(value)
        assert only(client.call(produce(batch(b"unacknowledged"), 9, acks=1), 9)).error_code == 0
        cluster.publish(leader=(leader + 1) % 3, leader_epoch=epoch)
    client = cluster.planes.client(cluster.state.leader)
    assert only(client.call(produce(batch(b"last"), 9, acks=-1), 9)).error_code == 0
    cluster.planes.await_equal()
    contents = cluster.planes.log(0).read(0, 1 << 20)
    places = [contents.index(value) for value in stored]
    assert places == sorted(places)


def test_roles_are_given_together(tmp_path):
    """Also if one of them fails: the reactors continue, and the partitions before it have their roles."""
    planes = Planes(tmp_path, lag_max_ms=LAG_MS, wait_max_ms=20)
    try:
        replicas = planes.replicas[0]
        role = {"leader_epoch": 3, "replicas": (0, 1), "isr": (0,)}
        changes = [
            (replicas.lead, (TOPIC, 0), role),
            (replicas.set_isr, (TOPIC, 0, (0, 1)), {}),
            (replicas.lead, ("missing", 0), role),
        ]
        with pytest.raises(KeyError):
            replicas.change_roles(changes)
        assert planes.served[0].plane.led_epoch(TOPIC, 0) == 3
        assert replicas.followers(TOPIC, 0)[1][2], "broker 1 is in sync"
        replicas.change_roles([(replicas.follow, (TOPIC, 0), {"leader_epoch": 4})])
        assert planes.served[0].plane.led_epoch(TOPIC, 0) == -1
        replicas.set_broker_epoch(7)  # takes the lock that change_roles must have released
    finally:
        planes.close()


def test_a_follower_without_an_address_of_its_leader_stops_in_the_same_epoch(tmp_path):
    planes = Planes(tmp_path, count=2, wait_max_ms=20)
    try:
        for partition in (0, 1):
            planes.elect(0, 1, isr=[0], partition=partition)
        client = planes.client(0)

        def written(partition):
            return only(client.call(produce(batch(b"a"), 9, partition=partition), 9)).error_code == 0

        assert written(0) and written(1)
        planes.await_equal(0)
        planes.await_equal(1)
        planes.replicas[1].follow(TOPIC, 0, leader_epoch=1, leader_id=0)
        # A fetch in flight at that moment may still bring a batch, also one written afterwards.
        wait_until(lambda: written(1) and planes.log(1, 1).log_end_offset > 1)
        assert written(0)
        before = planes.log(0, 1).log_end_offset
        assert written(1)
        wait_until(lambda: planes.log(1, 1).log_end_offset > before)
        assert planes.log(1).log_end_offset == 1
        planes.follow(1, 0, 1)
        planes.await_equal(0)
    finally:
        planes.close()


def test_a_partition_whose_directory_is_offline_takes_every_role(tmp_path):
    planes = Planes(tmp_path, lag_max_ms=LAG_MS, wait_max_ms=20)
    try:
        plane, replicas = planes.served[0].plane, planes.replicas[0]
        plane.add_partition("lost", bytes(16), 0, None)
        for epoch in (1, 2):
            replicas.lead("lost", 0, leader_epoch=epoch, replicas=(0, 1), isr=(0, 1))
            replicas.set_min_in_sync("lost", 0, 2)
            replicas.set_isr("lost", 0, (0,), leaving=(1,), changing=True)
            assert not replicas.try_join("lost", 0, 1, leader_epoch=epoch)
            replicas.check_lag()
            plane.durable("lost", 0)
            replicas.follow("lost", 0, leader_epoch=epoch, leader_id=1, host="127.0.0.1", port=1)
        replicas.stop("lost", 0)
    finally:
        planes.close()
