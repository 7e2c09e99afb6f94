"""Random lives of a cluster, and what must hold after each event."""

import random
from contextlib import suppress

import pytest

from bowstring.engine.controller import alter_partition, brokers, leader_elections, reassignments, topics
from bowstring.engine.controller.batches import bytes_most
from bowstring.engine.controller.partition_index import NO_LEADER, PartitionIndex
from bowstring.engine.metadata.image import ClusterImage, PartitionImage
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.engine.metadata.topic_changes import NewTopic
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from bowstring.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from bowstring.protocol.messages.elect_leaders import ElectLeadersRequest
from bowstring.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.controller import ControllerCluster

BROKERS = range(1, 6)
STEPS = 150


class Life:
    """Brokers that come and go, leaders that report, and an operator who reassigns."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = ControllerCluster(
            eligible_leaders=seed % 2 == 1,
            level=self.chance.choice([33, 33, 11]) if seed % 2 == 0 else 33,
            min_insync_replicas=str(self.chance.randint(1, 3)),
            unclean_leader_election_enable="true" if seed % 3 == 0 else "false",
        )
        self.incarnations = dict.fromkeys(BROKERS, 0)

    @property
    def image(self) -> ClusterImage:
        return self.cluster.state.image

    def step(self) -> None:
        """Does one random thing; refusals are part of life."""
        self.cluster.now_ms += self.chance.choice([0, 100, 3000])
        action = self.chance.choice(ACTIONS)
        with suppress(KafkaError):
            action(self)

    def broker(self) -> int:
        return self.chance.choice(BROKERS)

    def restart(self) -> None:
        broker = self.broker()
        self.incarnations[broker] = (self.incarnations[broker] + 1) % 250
        previous = self.chance.choice([-1, self.cluster.epoch(broker)])
        self.cluster.register(
            broker,
            self.incarnations[broker],
            rack=self.chance.choice([None, "A"]),
            previous_broker_epoch=previous,
        )

    def beat(self) -> None:
        for broker in self.chance.sample(list(BROKERS), 3):
            if broker in self.image.brokers:
                self.cluster.heartbeat(broker)

    def ask_for_something(self) -> None:
        self.cluster.heartbeat(
            self.broker(),
            want_fence=self.chance.random() < 0.5,
            want_shut_down=self.chance.random() < 0.5,
            offline_log_dirs=self.chance.choice([[], [b"gone" * 4]]),
        )

    def time_out(self) -> None:
        self.cluster.now_ms += 5000
        while (decision := brokers.fence_stale(self.cluster.state, self.cluster.now_ms)) is not None:
            self.cluster.decide(decision)

    def unregister(self) -> None:
        if self.chance.random() < 0.2:
            request = UnregisterBrokerRequest(broker_id=self.broker())
            self.cluster.decide(brokers.unregister(self.cluster.state, request))

    def create(self) -> None:
        if len(self.image.topics) < 5:
            name = f"t{self.chance.randrange(1000)}"
            wanted = NewTopic(name, self.chance.randint(1, 4), self.chance.randint(1, 4))
            self.cluster.decide(topics.create(self.cluster.state, wanted))

    def report(self) -> None:
        """Leaders change ISRs: followers fall behind, and the live ones catch up."""
        for topic in list(self.image.topics.values()):
            for index, partition in enumerate(topic.partitions):
                if partition.leader == NO_LEADER or self.chance.random() < 0.4:
                    continue
                isr = [partition.leader]
                isr += [
                    each
                    for each in partition.replicas
                    if each != partition.leader
                    and each in self.image.brokers
                    and self.image.brokers[each].is_active
                    and self.chance.random() < 0.8
                ]
                data = AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=each, broker_epoch=self.cluster.epoch(each)) for each in isr
                    ],
                )
                request = AlterPartitionRequest(
                    broker_id=partition.leader,
                    broker_epoch=self.cluster.epoch(partition.leader),
                    topics=[AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[data])],
                )
                self.cluster.decide(alter_partition.alter_partition(self.cluster.state, request, 3))

    def reassign(self) -> None:
        topics_of = list(self.image.topics.values())
        if topics_of:
            topic = self.chance.choice(topics_of)
            replicas = self.chance.choice(
                [None, self.chance.sample(list(BROKERS), self.chance.randint(1, 4))]
            )
            index = self.chance.randrange(len(topic.partitions))
            wanted = ReassignablePartition(partition_index=index, replicas=replicas)
            request = AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name=topic.name, partitions=[wanted])]
            )
            self.cluster.decide(reassignments.alter_reassignments(self.cluster.state, request))

    def elect(self) -> None:
        kind = self.chance.choice([0, 0, 1])
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.cluster.decide(leader_elections.elect_leaders(self.cluster.state, request))

    def balance(self) -> None:
        for decide in (leader_elections.balance, leader_elections.elect_unclean):
            if (decision := decide(self.cluster.state)) is not None:
                self.cluster.decide(decision)


ACTIONS = (
    Life.restart,
    Life.restart,
    Life.beat,
    Life.beat,
    Life.beat,
    Life.ask_for_something,
    Life.time_out,
    Life.unregister,
    Life.create,
    Life.report,
    Life.report,
    Life.reassign,
    Life.elect,
    Life.balance,
)


def partitions(image: ClusterImage) -> dict[tuple[bytes, int], PartitionImage]:
    return {
        (topic.id, index): partition
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
    }


def check(life: Life, before: dict[tuple[bytes, int], PartitionImage]) -> None:
    """What must hold between two events."""
    image, has_elr = life.image, life.cluster.state.has_eligible_leaders
    now = partitions(image)
    for key, partition in now.items():
        assert set(partition.in_sync) <= set(partition.replicas)
        assert len(set(partition.replicas)) == len(partition.replicas) > 0
        assert len(partition.directories) in (0, len(partition.replicas))
        if partition.leader == NO_LEADER:
            assert partition.in_sync or has_elr
        else:
            assert partition.leader in partition.in_sync, "a leader outside of its ISR"
            assert image.brokers[partition.leader].is_active, "a fenced broker leads"
        if has_elr:
            minimum = life.cluster.state.min_in_sync(image.topics_by_id[key[0]].name)
            minimum = min(minimum, len(partition.replicas))
            assert set(partition.eligible_leaders) <= set(partition.replicas)
            assert not set(partition.eligible_leaders) & set(partition.in_sync)
            assert not partition.eligible_leaders or len(partition.in_sync) < minimum
            assert len(partition.last_known_leaders) <= 1
        else:
            assert partition.eligible_leaders == ()
        for each in partition.in_sync:
            if partition.leader != NO_LEADER:
                assert image.brokers[each].is_active, "a fenced broker in the ISR of a led partition"
        check_change(life, before.get(key), partition)


def check_change(life: Life, old: PartitionImage | None, new: PartitionImage) -> None:
    """What must hold of a partition's change."""
    if old is None or old == new:
        return
    assert new.partition_epoch > old.partition_epoch
    assert new.leader_epoch >= old.leader_epoch
    if new.leader != old.leader:
        assert new.leader_epoch > old.leader_epoch
        clean = set(old.in_sync) | set(old.eligible_leaders)
        if new.leader != NO_LEADER and old.leader_recovery_state == new.leader_recovery_state == 0:
            # Besides the in-sync ones, one that joined in the same event's records.
            assert new.leader in clean | set(new.replicas)
    if not set(old.replicas) <= set(new.replicas):
        assert new.leader_epoch > old.leader_epoch


def described(image: ClusterImage) -> object:
    return (
        {topic.name: (topic.id, topic.partitions) for topic in image.topics.values()},
        image.brokers,
        image.configs,
        image.features,
        image.next_producer_id,
    )


def indexed(index: PartitionIndex, image: ClusterImage) -> object:
    directories = {each for part in partitions(image).values() for each in part.directories}
    return (
        {each: set(index.in_sync(each)) for each in BROKERS},
        {each: set(index.eligible(each)) for each in BROKERS},
        {each: set(index.led(each)) for each in (NO_LEADER, *BROKERS)},
        {each: set(index.in_directory(each)) for each in directories},
        set(index.reassigning),
        set(index.imbalanced),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_lives(seed):
    life = Life(seed)
    for _ in range(STEPS):
        before = partitions(life.image)
        life.step()
        check(life, before)
    assert indexed(life.cluster.state.index, life.image) == indexed(PartitionIndex(life.image), life.image)
    level = life.cluster.state.metadata_version
    for record in life.cluster.log:
        assert len(encode_record(record, level)) <= bytes_most(record)
    replayed = ClusterImage()
    replayed.apply_all(decode_record(encode_record(record, level)) for record in life.cluster.log)
    assert described(replayed) == described(life.image)


@pytest.mark.parametrize("seed", range(20))
def test_when_all_is_well_again_everything_is_led_and_reassigned(seed):
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    cluster = life.cluster
    cluster.now_ms += 20_000
    for broker in BROKERS:
        life.incarnations[broker] = 251
        cluster.register(broker, 251, previous_broker_epoch=cluster.epoch(broker))
        cluster.heartbeat(broker)
    elect = ElectLeadersRequest(election_type=1, topic_partitions=None)
    cluster.decide(leader_elections.elect_leaders(cluster.state, elect))
    life.chance = AlwaysWell()
    for _ in range(3):
        life.report()
    life.balance()
    for partition in partitions(life.image).values():
        assert partition.leader == partition.replicas[0]
        assert set(partition.in_sync) == set(partition.replicas)
        assert partition.adding == partition.removing == ()
        assert partition.eligible_leaders == partition.last_known_leaders == ()
    assert not cluster.state.index.reassigning
    assert not cluster.state.index.imbalanced


class AlwaysWell(random.Random):
    """All followers are in sync in each report."""

    def random(self) -> float:
        return 0.5
