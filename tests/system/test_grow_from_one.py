"""One node is broker and controller; others join it."""

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.protocol.messages import update_features as uf
from tests.support.quorum_nodes import CLUSTER_ID
from tests.support.quorum_processes import run_format
from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient


class Nodes:
    """Node 1, which is also the controller, and brokers that follow it."""

    def __init__(self, directory):
        self.directory = directory
        self.controller, self.ports, self.running = steady_port(), {1: steady_port(), 2: steady_port()}, []

    def config(self, id, **more):
        settings = {
            "node.id": id,
            "process.roles": "broker,controller" if id == 1 else "broker",
            "log.dirs": self.directory / str(id),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[id]}"
            + (f",CONTROLLER://127.0.0.1:{self.controller}" if id == 1 else ""),
            "bowstring.local.socket": "off",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        path = self.directory / f"{id}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def format(self, path, *options, cluster_id=CLUSTER_ID):
        done = run_format("--config", str(path), "--cluster-id", cluster_id, *options)
        assert done.returncode == 0, done.stderr

    def start(self, path):
        process = Process("--config", str(path))
        self.running.append(process)
        return process

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.ports[1]}"


@pytest.fixture
def nodes(tmp_path):
    made = Nodes(tmp_path)
    yield made
    for process in reversed(made.running):
        process.stop()


def replicated(nodes):
    """Node 2 takes part: a new topic is on both."""
    with Admin(nodes.bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
        admin.create_topics([bowstring.NewTopic("both", assignments={0: [1, 2]})])
        wait_until(lambda: set(admin.describe_topic("both").partitions[0].isr) == {1, 2})


def test_a_broker_joins_a_node_that_names_only_itself(nodes):
    where = {"controller_quorum_bootstrap_servers": f"127.0.0.1:{nodes.controller}"}
    first, second = nodes.config(1, **where), nodes.config(2, **where)
    nodes.format(first, "--standalone")
    nodes.format(second)
    nodes.start(first)
    nodes.start(second)
    replicated(nodes)


@pytest.mark.parametrize("setting", ["controller_quorum_bootstrap_servers", "controller_quorum_voters"])
def test_a_broker_joins_a_node_that_was_started_without_formatting(nodes, setting):
    """Its first start formats a node that can only be the first of a cluster."""
    address = f"127.0.0.1:{nodes.controller}"
    where = {setting: f"1@{address}" if setting.endswith("voters") else address}
    first = nodes.config(1, **where)
    alone = nodes.start(first)
    with bowstring.Producer(nodes.bootstrap, acks="all") as producer:
        for n in range(100):
            producer.send("old", b"%d" % n)
    alone.stop()
    nodes.running.clear()
    process = nodes.start(first)
    second = nodes.config(2, **where)
    nodes.format(second, cluster_id=process.facts["cluster_id"])
    nodes.start(second)
    replicated(nodes)
    with bowstring.Consumer(nodes.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("old", 0)])
        found = []
        wait_until(lambda: found.extend(consumer.poll(1.0)) or len(found) >= 100)
    assert [int(record.value) for record in found] == list(range(100))


def test_others_join_a_node_that_has_put_itself_into_its_log(nodes):
    """UpdateFeatures puts a node without a listener for controllers there. With one, it leads and puts that there, so
    that brokers and a second controller find it.
    """
    servers = {"controller_quorum_bootstrap_servers": f"127.0.0.1:{nodes.controller}"}
    alone = nodes.start(nodes.config(1, listeners=f"PLAINTEXT://127.0.0.1:{nodes.ports[1]}"))
    with bowstring.Producer(nodes.bootstrap, acks="all") as producer:
        producer.send("old", b"0")
    feature = uf.FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    client = WireClient(nodes.ports[1])
    assert client.ask(uf.UpdateFeaturesRequest(feature_updates=[feature])).error_code == 0
    client.close()
    alone.stop()
    nodes.running.clear()
    first = nodes.start(nodes.config(1, **servers))
    nodes.ports[2], second_controller = steady_port(), steady_port()
    second = nodes.config(
        2,
        **servers,
        process_roles="broker,controller",
        listeners=f"PLAINTEXT://127.0.0.1:{nodes.ports[2]},CONTROLLER://127.0.0.1:{second_controller}",
        controller_quorum_auto_join_enable="true",
    )
    nodes.format(second, "--no-initial-controllers", cluster_id=first.facts["cluster_id"])
    nodes.start(second)
    replicated(nodes)
    with Admin(nodes.bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
        found = wait_until(lambda: len((now := admin.describe_quorum()).voters) == 2 and now)
    assert found.endpoints == {
        1: [("CONTROLLER", "127.0.0.1", nodes.controller)],
        2: [("CONTROLLER", "127.0.0.1", second_controller)],
    }
    with bowstring.Consumer(nodes.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("old", 0)])
        (record,) = wait_until(lambda: consumer.poll(1.0))
    assert record.value == b"0"
