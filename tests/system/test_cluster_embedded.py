"""bowstring.Cluster: nodes of a cluster as processes, which tests may kill, pause and cut off."""

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.engine.configs import ConfigError
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)
ONE_REPLICA = {"default.replication.factor": 1, "offsets.topic.replication.factor": 1}


@pytest.fixture(scope="module")
def cluster():
    with bowstring.Cluster(3, config=ONE_REPLICA, start_timeout_s=HANG_S) as made:
        yield made


@pytest.fixture
def admin(cluster):
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as made:
        yield made


def unfenced(admin):
    return [broker.id for broker in admin.describe_cluster().brokers]


def test_a_cluster_serves(cluster, admin):
    assert unfenced(admin) == cluster.broker_ids == cluster.controller_ids == [1, 2, 3]
    assert admin.describe_cluster().cluster_id == cluster.cluster_id
    admin.create_topic("served", partitions=3)
    with bowstring.Producer(cluster.bootstrap_servers) as producer:
        for partition in range(3):
            producer.send("served", b"x", partition=partition).result(HANG_S)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_node_that_was_ended_starts_again(cluster, admin, how):
    getattr(cluster, how)(2)
    assert cluster.running_ids == [1, 3]
    wait_until(lambda: unfenced(admin) == [1, 3], lambda: unfenced(admin))
    cluster.restart(2)
    wait_until(lambda: unfenced(admin) == [1, 2, 3], lambda: unfenced(admin))


def test_a_paused_node_is_fenced_until_it_goes_on(cluster, admin):
    cluster.pause(3)
    wait_until(lambda: unfenced(admin) == [1, 2], lambda: unfenced(admin))
    cluster.resume(3)
    wait_until(lambda: unfenced(admin) == [1, 2, 3], lambda: unfenced(admin))


def test_a_node_cut_off_is_fenced_until_links_are_healed(cluster, admin):
    cluster.cut(1)
    wait_until(lambda: unfenced(admin) == [2, 3], lambda: unfenced(admin))
    cluster.heal()
    wait_until(lambda: unfenced(admin) == [1, 2, 3], lambda: unfenced(admin))


def test_wrong_arguments_are_told(cluster):
    with pytest.raises(ConfigError, match="there is no node 4; nodes are 1, 2, 3"):
        cluster.kill(4)
    with pytest.raises(ConfigError, match="a cluster of 0 brokers cannot hold records"):
        bowstring.Cluster(0)
