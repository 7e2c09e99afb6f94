"""Five brokers in trouble under load: acknowledged records stay, once and in order; no client fails."""

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from tests.support.acked_load import AckedLoad
from tests.support.group_reader import GroupReader, committed
from tests.support.in_sync import wait_until_in_sync
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)
PARTITIONS = 5
# Kafka's defaults: on a busy machine, five voters do not agree within the short times of `Cluster`.
PATIENT = {"controller.quorum.election.timeout.ms": 1000, "controller.quorum.fetch.timeout.ms": 2000}


@pytest.fixture(scope="module")
def running():
    with bowstring.Cluster(5, config=PATIENT, start_timeout_s=HANG_S) as made:
        yield made


@pytest.fixture
def cluster(running):
    yield running
    running.repair()


@pytest.fixture
def admin(cluster):
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as made:
        yield made


def load_on(cluster, admin, topic, replicas=3, least=2):
    """Creates a topic with a partition led by each broker, and returns load for it."""
    brokers = cluster.broker_ids
    assignments = {
        index: [brokers[(index + place) % len(brokers)] for place in range(replicas)]
        for index in range(PARTITIONS)
    }
    admin.create_topics(
        [bowstring.NewTopic(topic, assignments=assignments, configs={"min.insync.replicas": str(least)})]
    )
    return AckedLoad(cluster.bootstrap_servers, topic, PARTITIONS)


def test_brokers_restart_one_after_the_other(cluster, admin):
    """No record fails, and the group loses neither its offsets nor a record."""
    load = load_on(cluster, admin, "rolling")
    with GroupReader(cluster.bootstrap_servers, "rolling") as reader:
        with load:
            for id in cluster.broker_ids:
                load.wait_for_more(count=20)
                cluster.restart(id)
                wait_until_in_sync(admin, "rolling")
            load.wait_for_more(count=20)
        load.check()
        reader.wait_until_read(load.acked)
    assert reader.errors == []
    for index, records in load.acked.items():
        assert sorted(set(reader.read[index])) == sorted(records.items())
    ends = [max(load.acked[index]) + 1 for index in range(PARTITIONS)]
    assert committed(cluster.bootstrap_servers, "rolling", PARTITIONS) == ends


def test_two_of_five_are_killed(cluster, admin):
    """One of them is the active controller: writes continue with the other three."""
    load = load_on(cluster, admin, "two", replicas=5, least=3)
    with load:
        load.wait_for_more()
        active = admin.describe_quorum().leader_id
        killed = [active, next(id for id in cluster.broker_ids if id != active)]
        cluster.kill(*killed)
        load.wait_for_more()
        cluster.restart(*killed)
        wait_until_in_sync(admin, "two")
        load.wait_for_more()
    load.check()


def test_the_controller_hangs_and_comes_back(cluster, admin):
    """Another one takes over meanwhile; the old one has no authority when it continues."""
    load = load_on(cluster, admin, "hung")
    with load:
        load.wait_for_more()
        quorum = admin.describe_quorum()
        cluster.pause(quorum.leader_id)
        others = [cluster.address(id) for id in cluster.broker_ids if id != quorum.leader_id]
        with Admin(others, timeout_ms=TIMEOUT_MS) as awake:
            wait_until(lambda: awake.describe_quorum().leader_epoch > quorum.leader_epoch)
            load.wait_for_more()
        cluster.resume(quorum.leader_id)
        wait_until_in_sync(admin, "hung")
        load.wait_for_more()
    load.check()


def test_a_link_is_slow(cluster, admin):
    """A broker with a slow link delays no other for longer, and stays in sync."""
    load = load_on(cluster, admin, "slow")
    with load:
        load.wait_for_more()
        cluster.delay(100, 1)
        load.wait_for_more()
        wait_until_in_sync(admin, "slow")
        cluster.heal()
        load.wait_for_more()
    load.check()
