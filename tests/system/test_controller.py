"""A cluster of processes, operated with Kafka's own tools: topics, reassignments, elections, features, brokers."""

import contextlib
import json
import signal

import pytest

from tests.support.java_tools import TOOLS, java_tool
from tests.support.quorum_processes import QuorumOfProcesses
from tests.support.serving import Process, steady_port
from tests.support.waiting import wait_until

BROKERS = (10, 11, 12)
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"


class ClusterOfProcesses(QuorumOfProcesses):
    """Three controllers and three brokers."""

    def __init__(self, directory) -> None:
        super().__init__(directory)
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.ports.items())
        self.broker_ports = {id: steady_port() for id in BROKERS}
        for id, port in self.broker_ports.items():
            settings = {
                "node.id": id,
                "process.roles": "broker",
                "log.dirs": directory / str(id),
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.quorum.voters": voters,
                "bowstring.local.socket": "off",
                "broker.heartbeat.interval.ms": 200,
            }
            self.files[id] = directory / f"{id}.properties"
            self.files[id].write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            self.format(id)

    def start_brokers(self, *ids: int) -> None:
        for id in ids or BROKERS:
            self.processes[id] = Process("--config", str(self.files[id]))

    def stop(self) -> None:
        # Brokers contact a controller before they stop.
        for id in BROKERS:
            if id in self.processes:
                self.processes.pop(id).stop()
        super().stop()

    def tool(self, name: str, *arguments: str) -> str:
        """Runs one of Kafka's tools against the first broker."""
        bootstrap = f"127.0.0.1:{self.broker_ports[BROKERS[0]]}"
        first = ("unregister",) if name.endswith("ClusterTool") else ()
        return java_tool(name, *first, "--bootstrap-server", bootstrap, *arguments)

    def topic(self, *arguments: str) -> str:
        return self.tool(f"{TOOLS}.TopicCommand", *arguments)

    def reassign(self, directory, partition: dict[str, object], *arguments: str) -> None:
        """Gives one partition to kafka-reassign-partitions.sh."""
        file = directory / "wanted.json"
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        self.tool(REASSIGN, "--reassignment-json-file", str(file), *arguments)

    @contextlib.contextmanager
    def stopped(self, id: int):
        """Pauses a broker during the body, as if the system did not schedule it."""
        process = self.processes[id].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def partitions(self) -> list[dict[str, str]]:
        """The output of kafka-topics.sh for each partition of topic t."""
        lines = [
            line for line in self.topic("--describe", "--topic", "t").splitlines() if "Partition:" in line
        ]
        return [
            {
                name: value.strip()
                for name, _, value in (part.partition(":") for part in line.strip().split("\t"))
            }
            for line in lines
        ]


@pytest.fixture(name="cluster", scope="module")
def a_cluster(tmp_path_factory):
    made = ClusterOfProcesses(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        made.leader()
        made.start_brokers()
        yield made
    finally:
        made.stop()


def test_topics_are_spread_over_the_brokers(cluster):
    cluster.topic("--create", "--topic", "t", "--partitions", "3", "--replication-factor", "1")
    found = cluster.partitions()
    assert {each["Leader"] for each in found} == {"10", "11", "12"}
    assert all(each["Isr"] == each["Replicas"] for each in found)
    cluster.topic("--alter", "--topic", "t", "--partitions", "4")
    assert len(cluster.partitions()) == 4


def test_features_fall_and_rise(cluster):
    tool, feature = f"{TOOLS}.FeatureCommand", "eligible.leader.replicas.version"

    def level():
        [line] = [each for each in cluster.tool(tool, "describe").splitlines() if feature in each]
        return line.split("FinalizedVersionLevel: ")[1].split()[0]

    assert level() == "1"  # as formatted
    assert "was downgraded to 0" in cluster.tool(tool, "downgrade", "--feature", f"{feature}=0")
    assert level() == "0"
    assert "was upgraded to 1" in cluster.tool(tool, "upgrade", "--feature", f"{feature}=1")
    assert level() == "1"


def test_reassignments_end_and_are_cancelled(cluster, tmp_path):
    all_before = cluster.partitions()
    before = all_before[0]
    wanted = {"topic": "t", "partition": 0, "replicas": [12, 11, 10]}
    cluster.reassign(tmp_path, wanted, "--execute")
    wait_until(lambda: sorted(cluster.partitions()[0]["Isr"].split(",")) == ["10", "11", "12"])
    assert cluster.partitions()[0]["Replicas"] == "12,11,10"
    back = {"topic": "t", "partition": 0, "replicas": [int(before["Leader"])]}
    cluster.reassign(tmp_path, back, "--execute")
    wait_until(lambda: cluster.partitions()[0]["Isr"] == before["Leader"])
    # A paused broker cannot catch up: the move to it continues until it is cancelled.
    other = next(id for id in BROKERS[1:] if str(id) != before["Leader"])
    with cluster.stopped(other):
        away = {"topic": "t", "partition": 0, "replicas": [other]}
        cluster.reassign(tmp_path, away, "--execute")
        assert "t-0" in cluster.tool(REASSIGN, "--list")
        cluster.reassign(tmp_path, away, "--cancel", "--preserve-throttles")
        assert cluster.partitions()[0]["Replicas"] == before["Leader"]
        assert "No partition reassignments" in cluster.tool(REASSIGN, "--list")
    wait_until(lambda: cluster.partitions() == all_before)


def test_a_killed_broker_leads_no_more_and_is_unregistered(cluster):
    before = cluster.partitions()
    assert "12" in {each["Leader"] for each in before}
    cluster.processes.pop(12).stop(signal.SIGKILL)
    wait_until(lambda: all(each["Leader"] != "12" for each in cluster.partitions()))
    for was, now in zip(before, cluster.partitions(), strict=True):
        # A fenced broker that was the last in sync stays eligible: it alone has the records (KIP-966).
        expected = {"Leader": "none", "Isr": "", "Elr": "12"} if was["Leader"] == "12" else was
        assert {name: now[name] for name in ("Leader", "Isr", "Elr")} == {
            name: expected[name] for name in ("Leader", "Isr", "Elr")
        }
    assert "no longer registered" in cluster.tool(f"{TOOLS}.ClusterTool", "--id", "12")


def test_the_cluster_outlives_its_controller(cluster):
    cluster.kill(cluster.leader().leader_id)
    cluster.leader(among=tuple(id for id in cluster.processes if id < BROKERS[0]))
    wait_until(lambda: "Created" in cluster.topic("--create", "--if-not-exists", "--topic", "u"))
    cluster.topic("--delete", "--topic", "t")
    assert cluster.topic("--list").split() == ["u"]
