"""Checkpoint files of brokers that only follow: written like those of leaders, and lowered when a log is cut."""

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.engine.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_offsets
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)


@pytest.fixture
def cluster():
    """Only node 3 writes its checkpoints by the clock; node 1 does when it stops."""
    config = {"bowstring.durability": "os", "broker.session.timeout.ms": 3_000}
    often = {
        "log.flush.offset.checkpoint.interval.ms": 50,
        "replica.high.watermark.checkpoint.interval.ms": 50,
    }
    with bowstring.Cluster(3, config=config, node_config={3: often}, start_timeout_s=HANG_S) as made:
        yield made


def written(cluster, node_id, name):
    (path,) = [cluster.log_dir(node_id) / name]
    return read_offsets(path).get(("t", 0), 0) if path.exists() else 0


def leader(admin):
    return admin.describe_topic("t").partitions[0].leader


def send(producer, count):
    for _ in range(count):
        producer.send("t", b"x", partition=0).result(HANG_S)


def test_followers_sync_and_write_their_checkpoints_and_lower_them_when_they_are_cut(cluster):
    others = [cluster.address(2), cluster.address(3)]
    with Admin(others, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topics([bowstring.NewTopic("t", assignments={0: (1, 2, 3)}, configs={"flush.ms": "50"})])
        with bowstring.Producer(cluster.address(1), acks="all") as producer:
            send(producer, 5)
        wait_until(lambda: written(cluster, 3, RECOVERY_POINTS) == 5)
        wait_until(lambda: written(cluster, 3, HIGH_WATERMARKS) == 5)

        cluster.cut(1)
        with bowstring.Producer(cluster.address(1), acks=1) as producer:
            send(producer, 20)  # no other broker will ever have them
        wait_until(lambda: leader(admin) in (2, 3), lambda: admin.describe_topic("t"))
        cluster.stop(1)
        assert written(cluster, 1, RECOVERY_POINTS) == 25
        admin.alter_configs("topic", "t", delete=["flush.ms"])
        cluster.heal()
        cluster.restart(1)
        wait_until(lambda: written(cluster, 1, RECOVERY_POINTS) == 5, lambda: cluster.log_text(1))
