"""A broker that led a partition last, and comes back without its log, does not lead it: others have its records."""

import shutil

import pytest

import bowstring
from bowstring import TopicPartition
from bowstring.clients.admin.admin import Admin
from tests.support.acked_load import produce_one_by_one, read_all
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)
TOPIC = "t"
VALUES = [b"%d" % number for number in range(30)]


@pytest.fixture(params=["os", "commit"])
def cluster(request):
    config = {"bowstring.durability": request.param, "min.insync.replicas": 2}
    with bowstring.Cluster(3, controllers=1, config=config, start_timeout_s=HANG_S) as made:
        yield made


def partition(cluster, broker_id):
    with Admin(cluster.address(broker_id), timeout_ms=TIMEOUT_MS) as admin:
        return admin.describe_topic(TOPIC).partitions[0]


def empty(cluster, broker_id):
    """Leaves a broker its identity only."""
    for path in cluster.log_dir(broker_id).iterdir():
        if path.is_dir() and not path.name.startswith("__cluster_metadata"):
            shutil.rmtree(path)
        elif path.name.startswith("bowstring.wal.") or path.name.endswith("-checkpoint"):
            path.unlink()


def test_acknowledged_records_outlive_the_log_of_the_last_leader(cluster):
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topic(TOPIC, partitions=1, replication_factor=3)
    produce_one_by_one(cluster.bootstrap_servers, TOPIC, VALUES)
    last = partition(cluster, 1).leader
    others = [id for id in (1, 2, 3) if id != last]
    cluster.kill(*others)
    wait_until(lambda: partition(cluster, last).isr == (last,), lambda: partition(cluster, last))
    cluster.kill(last)
    for id in others:
        cluster.restart(id)
    empty(cluster, last)
    cluster.restart(last)
    assert "have lost their logs here" in cluster.log_text(last)
    assert partition(cluster, last).leader == -1
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
        chosen = TopicPartition(TOPIC, 0)
        admin.alter_reassignments({chosen: [*others, last]})
        admin.elect_leaders([chosen], election="unclean")
        wait_until(lambda: set(partition(cluster, last).isr) == {1, 2, 3})
    (found,) = read_all(cluster.bootstrap_servers, TOPIC, 1)
    assert [value for _, value in found] == VALUES
