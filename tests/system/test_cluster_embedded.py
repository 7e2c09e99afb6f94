"""bowstring.Cluster: a cluster's nodes as processes, which tests may kill, pause and isolate."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bowstring
from bowstring.cli.cluster_status import collect
from bowstring.clients.admin.admin import Admin
from bowstring.clients.records import TopicPartition
from bowstring.cluster import layout
from bowstring.cluster.process import NodeError
from bowstring.engine.configs import ConfigError
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)


@pytest.fixture(scope="module")
def running():
    with bowstring.Cluster(3, start_timeout_s=HANG_S) as made:
        yield made


@pytest.fixture
def cluster(running):
    yield running
    running.repair()


@pytest.fixture
def others(cluster):
    """An Admin of nodes 2 and 3, for tests that disturb node 1."""
    servers = [cluster.address(2), cluster.address(3)]
    with Admin(servers, timeout_ms=TIMEOUT_MS) as made:
        yield made


def seen(admin, cluster, *ids):
    """Waits until these brokers are unfenced in the view of the others."""
    wait_until(
        lambda: [broker.id for broker in admin.describe_cluster().brokers] == list(ids),
        lambda: admin.describe_cluster(),
    )


def in_sync(admin, topic):
    return [sorted(each.isr) for each in admin.describe_topic(topic).partitions.values()]


def wait_for_isr(admin, topic, *ids):
    wait_until(
        lambda: all(each == list(ids) for each in in_sync(admin, topic)), lambda: admin.describe_topic(topic)
    )


def test_a_cluster_replicates_and_survives_a_node(cluster, others):
    assert cluster.broker_ids == cluster.controller_ids == cluster.running_ids == [1, 2, 3]
    assert others.describe_cluster().cluster_id == cluster.cluster_id
    others.create_topic("kept", partitions=3)
    wait_for_isr(others, "kept", 1, 2, 3)
    with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
        for number in range(30):
            producer.send("kept", b"%d" % number, partition=number % 3).result(HANG_S)
        cluster.kill(1)
        assert cluster.running_ids == [2, 3]
        for number in range(30, 60):
            producer.send("kept", b"%d" % number, partition=number % 3).result(HANG_S)
    seen(others, cluster, 2, 3)
    cluster.restart(1)
    wait_for_isr(others, "kept", 1, 2, 3)
    with bowstring.Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("kept", partition) for partition in range(3)])
        found = []
        wait_until(lambda: found.extend(consumer.poll(1.0)) or len(found) >= 60)
    assert sorted(int(record.value) for record in found) == list(range(60))


def test_a_stopped_node_is_fenced_before_its_session_ends(cluster, others):
    cluster.stop(1)
    assert cluster.running_ids == [2, 3]
    assert [broker.id for broker in others.describe_cluster().brokers] == [2, 3]
    cluster.restart(1)
    seen(others, cluster, 1, 2, 3)


def test_a_paused_node_is_fenced_until_it_goes_on(cluster):
    with Admin([cluster.address(1), cluster.address(2)], timeout_ms=TIMEOUT_MS) as admin:
        seen(admin, cluster, 1, 2, 3)
    cluster.pause(3)
    with Admin(cluster.address(1), timeout_ms=TIMEOUT_MS) as admin:
        wait_until(lambda: 3 not in [broker.id for broker in admin.describe_cluster().brokers])
        cluster.resume(3)
        seen(admin, cluster, 1, 2, 3)


def test_all_threads_of_a_paused_node_stand_still(cluster):
    states = Path(f"/proc/{cluster.pid(3)}/task")
    for _ in range(20):
        cluster.pause(3)
        threads = [each.read_text().rpartition(")")[2].split()[0] for each in states.glob("*/stat")]
        assert len(threads) > 3
        assert set(threads) == {"T"}
        cluster.resume(3)


def test_status_tells_of_a_node_that_is_cut_off_and_of_its_lag(cluster, others):
    others.create_topic("cut", partitions=1, configs={"min.insync.replicas": "2"})
    wait_for_isr(others, "cut", 1, 2, 3)
    partition = TopicPartition("cut", 0)
    # A connection that was cut before may need to be made again.
    wait_until(lambda: set(others.replica_ends([partition])[partition]) == {1, 2, 3})
    cluster.cut(1)
    wait_for_isr(others, "cut", 2, 3)
    with bowstring.Producer([cluster.address(2), cluster.address(3)], acks="all") as producer:
        producer.send("cut", b"x", partition=0).result(HANG_S)

    def told():
        found = collect(others).as_json()
        return [
            (each["state"], sorted(each["isr"])) for each in found["troubled"] if each["topic"] == "cut"
        ], [node["fenced"] for node in found["nodes"]]

    wait_until(lambda: told() == ([("at min ISR", [2, 3])], [True, False, False]), told)
    cluster.heal()
    wait_for_isr(others, "cut", 1, 2, 3)
    wait_until(lambda: others.replica_ends([partition])[partition] == {1: 1, 2: 1, 3: 1})
    wait_until(lambda: not collect(others).as_json()["troubled"], lambda: collect(others).as_json())


def test_a_link_can_be_cut_one_way(cluster, others):
    """Node 1 receives from the others, but they get nothing from it: no heartbeat arrives."""
    cluster.cut(1, one_way=True)
    seen(others, cluster, 2, 3)
    cluster.heal(1)
    seen(others, cluster, 1, 2, 3)


def test_a_slow_link_works(cluster, others):
    cluster.delay(20, 1)
    others.create_topic("slow", partitions=1)
    with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
        producer.send("slow", b"x").result(HANG_S)


def test_wrong_arguments_are_told(cluster, tmp_path):
    with pytest.raises(ConfigError, match="there is no node 4; nodes are 1, 2, 3"):
        cluster.kill(4)
    with pytest.raises(ConfigError, match="a cluster of 0 brokers cannot hold records"):
        bowstring.Cluster(0)
    with pytest.raises(ConfigError, match="there is no node 7; nodes are 1"):
        bowstring.Cluster(1, node_config={7: {}})
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        bowstring.Cluster(1, config={"num.partitions": "many"}).start()
    with bowstring.Cluster(1) as alone, pytest.raises(ConfigError, match="controllers=1"):
        alone.add_broker()
    with pytest.raises(RuntimeError, match="not running"):
        bowstring.Cluster(1).kill(1)


def test_two_brokers_have_a_controller_of_their_own():
    assert layout.roles_of(2, 0) == {1: ("broker",), 2: ("broker",), 101: ("controller",)}
    voters = {
        brokers: sum("controller" in each for each in layout.roles_of(brokers, 0).values())
        for brokers in range(1, 8)
    }
    assert voters == {1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 5, 7: 5}


def test_a_directory_is_used_again_with_more_brokers_and_other_ports(tmp_path):
    with bowstring.Cluster(1, controllers=1, data_dir=tmp_path, linked=False) as cluster:
        assert (cluster.broker_ids, cluster.controller_ids) == ([1], [101])
        first = cluster.cluster_id
        assert cluster.add_broker({"broker.rack": "b"}) == 2
        with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
            seen(admin, cluster, 1, 2)
            admin.create_topic("kept", partitions=1, replication_factor=2)
        with pytest.raises(ConfigError, match="linked=False"):
            cluster.cut(1)
    with pytest.raises(
        ConfigError, match="holds a cluster of nodes 1, 2, 101, not of 1; ask for 2 brokers and 1"
    ):
        bowstring.Cluster(1, data_dir=tmp_path).start()
    with bowstring.Cluster(2, controllers=1, data_dir=tmp_path) as cluster:
        assert cluster.cluster_id == first
        with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as admin:
            wait_for_isr(admin, "kept", 1, 2)
    assert (tmp_path / "node-1" / "data" / "kept-0").is_dir()


def test_a_node_that_does_not_start_shows_the_end_of_its_log(tmp_path):
    with bowstring.Cluster(1, data_dir=tmp_path) as cluster:
        cluster.stop(1)
        (cluster.log_dir(1) / "meta.properties").write_text("node.id=5\n")
        told = r"node 1 did not start: it ended with exit status 1\nThe end of \S+:\n  .*node"
        with pytest.raises(NodeError, match=told):
            cluster.restart(1)


PROGRAM = """
import bowstring, os, signal
cluster = bowstring.Cluster(3).start()
cluster.pause(2)
print(cluster.data_dir, os.getpid(), *map(cluster.pid, cluster.node_ids), flush=True)
signal.pause()
"""
# As in many containers: the kernel then continues no stopped process whose parent dies.
ADOPTING = """
import ctypes, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
subprocess.run([sys.executable, "-c", sys.argv[1]], stdin=subprocess.DEVNULL)
sys.stdin.read()
"""


@pytest.mark.parametrize("command", [["-c", PROGRAM], ["-c", ADOPTING, PROGRAM]], ids=["orphans", "adopted"])
def test_nodes_end_with_the_program_that_started_them(command):
    """Including a paused one, and however the program ends."""
    started = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    directory, starter, *pids = started.stdout.readline().split()
    os.kill(int(starter), signal.SIGKILL)
    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids), directory)
    started.stdin.close()
    started.wait(HANG_S)
    started.stdout.close()
    assert Path(directory).is_dir()
    subprocess.run(["rm", "-rf", directory], check=True)


def is_alive(pid):
    try:
        os.kill(pid, signal.SIG_DFL)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
