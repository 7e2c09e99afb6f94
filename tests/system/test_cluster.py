"""Clusters of processes: nodes with both roles, and brokers beside controllers."""

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.protocol.messages import describe_quorum as dq
from tests.support.cluster_processes import Cluster
from tests.support.java_tools import TOOLS, java_tool
from tests.support.quorum_processes import QuorumOfProcesses
from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient

TIMEOUT_MS = int(HANG_S * 1000)


@pytest.fixture
def combined(tmp_path):
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def separate(tmp_path):
    made = Cluster(tmp_path, roles="controller")
    try:
        yield made
    finally:
        made.stop()


def described(port, version):
    """A broker's description of the quorum, which it gets from the leader."""
    topic = dq.DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata",
        partitions=[dq.DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    client = WireClient(port)
    try:
        return client.ask(dq.DescribeQuorumRequest(topics=[topic]), version).topics[0].partitions[0]
    finally:
        client.close()


def check_records(bootstrap, topic, before=0):
    """Sends 30 records; the topic has them behind those of `before` earlier calls."""
    times = before + 1
    with Producer(bootstrap) as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=number % 3)
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in range(3)])
        found = []
        wait_until(lambda: found.extend(consumer.poll(1.0)) or len(found) >= 30 * times)
    assert sorted(int(record.value) for record in found) == sorted([*range(30)] * times)


def test_nodes_with_both_roles_serve_topics(combined):
    combined.start()
    bootstrap = combined.bootstrap_of(1, 2, 3)
    with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topic("t", partitions=3)
        brokers = {broker.id for broker in admin.describe_cluster().brokers}
        assert brokers == {1, 2, 3}
        assert set(admin.list_topics()) == {"t"}
    check_records(bootstrap, "t")


def test_a_broker_beside_controllers_serves_topics(separate):
    separate.start()
    separate.add_broker(10)
    bootstrap = separate.bootstrap_of(10)
    with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topic("t", partitions=3)
    check_records(bootstrap, "t")
    for version in range(3):
        assert {each.replica_id for each in described(separate.broker_ports[10], version).observers} == {10}
    tool = f"{TOOLS}.MetadataQuorumCommand"
    told = java_tool(tool, "--bootstrap-server", bootstrap, "describe", "--replication")
    roles = sorted(line.split()[-1] for line in told.splitlines()[1:])
    assert roles == ["Follower", "Follower", "Leader", "Observer"]
    first = separate.leader(among=(1, 2, 3))
    separate.kill(first.leader_id)
    others = tuple(id for id in (1, 2, 3) if id != first.leader_id)
    separate.leader(among=others)
    with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topic("u", partitions=3)
    check_records(bootstrap, "u")
    assert separate.processes[10].stop() == 0
    del separate.processes[10]
    separate.start(10)
    with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
        wait_until(lambda: set(admin.list_topics()) >= {"t", "u"})
    check_records(bootstrap, "u", before=1)


def test_a_broker_of_another_cluster_is_refused(separate):
    separate.start()
    separate.broker_ports[10] = steady_port()
    separate.write_config(10, "broker")
    QuorumOfProcesses.format(separate, 10)
    properties = separate.directory / "10" / "meta.properties"
    text = properties.read_text()
    properties.write_text(
        "".join(
            line if not line.startswith("cluster.id") else "cluster.id=another-cluster-of-test\n"
            for line in text.splitlines(keepends=True)
        )
    )
    node = Process("--config", str(separate.files[10]), wait=False)
    line = node.wait_for(
        "a controller belongs to another cluster; correct controller.quorum.bootstrap.servers or "
        "controller.quorum.voters, or format this node for that cluster"
    )
    assert line["own_cluster_id"] == "another-cluster-of-test"
    assert line["its_cluster_id"] != line["own_cluster_id"]
    node.stop()


def state_of(admin, topic):
    """Leader, replicas and in-sync replicas of each partition."""
    return {
        index: (each.leader, tuple(sorted(each.replicas)), tuple(sorted(each.isr)))
        for index, each in admin.describe_topic(topic).partitions.items()
    }


def await_in_sync(admin, topic, brokers):
    wait_until(
        lambda: all(each[2] == brokers for each in state_of(admin, topic).values()),
        lambda: state_of(admin, topic),
    )


def test_acknowledged_records_survive_their_leader(combined):
    """Each of three brokers is killed or stopped once while a producer continues."""
    combined.start()
    bootstrap = combined.bootstrap_of(1, 2, 3)
    acked = {index: [] for index in range(3)}

    def note(index, value):
        def done(future):
            acked[index].append((future.result().offset, value))

        return done

    def send(producer, numbers):
        for number in numbers:
            value = b"%d" % number
            producer.send("t", value, partition=number % 3).add_done_callback(note(number % 3, value))

    with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin, Producer(bootstrap, acks="all") as producer:
        admin.create_topic("t", partitions=3, replication_factor=3)
        assert all(each[1:] == ((1, 2, 3), (1, 2, 3)) for each in state_of(admin, "t").values())
        number = 0
        for id in (1, 2, 3):
            send(producer, range(number, number + 3000))
            if id == 2:
                assert combined.processes.pop(id).stop() == 0
            else:
                combined.kill(id)
            send(producer, range(number + 3000, number + 6000))
            producer.flush()
            number += 6000
            wait_until(lambda id=id: all(each[0] != id for each in state_of(admin, "t").values()))
            combined.start(id)
            await_in_sync(admin, "t", (1, 2, 3))
    assert sum(map(len, acked.values())) == number
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", index) for index in range(3)])
        found = {index: [] for index in range(3)}

        def read():
            for record in consumer.poll(1.0):
                found[record.partition].append((record.offset, record.value))
            return sum(map(len, found.values())) >= number

        wait_until(read)
    for index in range(3):
        assert found[index] == sorted(acked[index])
        assert [int(value) for _, value in found[index]] == list(range(index, number, 3))
