"""Kafka's consumer reads from the replica in its rack (KIP-392)."""

import urllib.request

import pytest

import bowstring
from tests.support.java_tools import TOOLS, java_tool
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S

RECORDS = 1000
RACKS = {1: "a", 2: "b"}


@pytest.fixture
def cluster():
    ports = {id: steady_port() for id in RACKS}
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    own = {id: {"broker.rack": rack, "bowstring.metrics.port": ports[id]} for id, rack in RACKS.items()}
    config = {"replica.selector.class": selector}
    with bowstring.Cluster(2, config=config, node_config=own, linked=False) as made:
        made.metrics_ports = ports
        yield made


def bytes_out(cluster, id):
    """What consumers got of topic t from a broker."""
    url = f"http://127.0.0.1:{cluster.metrics_ports[id]}/metrics"
    with urllib.request.urlopen(url, timeout=HANG_S) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith('bowstring_topic_bytes_out_total{topic="t"')]
    return sum(float(line.split()[-1]) for line in found)


@pytest.mark.parametrize("rack", RACKS.values())
def test_the_console_consumer_reads_in_its_rack(cluster, rack):
    with bowstring.Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics([bowstring.NewTopic("t", assignments={0: [1, 2]})])
    with bowstring.Producer(cluster.bootstrap_servers, acks="all") as producer:
        for number in range(RECORDS):
            producer.send("t", b"%d" % number)
    before = {id: bytes_out(cluster, id) for id in RACKS}
    told = java_tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "t", "--from-beginning"),
        *("--max-messages", str(RECORDS), "--command-property", f"client.rack={rack}"),
    )
    assert [int(line) for line in told.split()] == list(range(RECORDS))
    read_from = {RACKS[id] for id in RACKS if bytes_out(cluster, id) > before[id]}
    assert read_from == {rack}
