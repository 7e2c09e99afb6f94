"""Operates a cluster of processes by commands: reassignments, elections, a broker that leaves, the quorum."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.admin.results import NewTopic
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.cluster_processes import Cluster
from tests.support.commands import Result
from tests.support.java_tools import TOOLS, java_tool
from tests.support.log_batches import TRANSACTIONAL, batch
from tests.support.quorum_processes import QuorumOfProcesses
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient

TIMEOUT_MS = int(HANG_S * 1000)
BROKERS = (10, 11, 12)


class OperatedCluster(Cluster):
    """Controllers 1 to 3 and brokers 10 to 12, in racks a, b and a; and the command line."""

    def __init__(self, directory):
        super().__init__(directory, roles="controller")
        self.start()
        for id in BROKERS:
            self.broker_ports[id] = steady_port()
            rack = "b" if id == 11 else "a"
            self.write_config(id, "broker", **{"broker.rack": rack})
            QuorumOfProcesses.format(self, id, "--ignore-formatted")
        self.start(*BROKERS)
        self.bootstrap_servers = self.bootstrap_of(*BROKERS)

    def write_config(self, id, role="", **more):
        more = {
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "200",
            "bowstring.metrics.port": "0",
            **more,
        }
        return super().write_config(id, role, **more)

    def get(self, id, path):
        """Status and text of a page of a node's metrics server."""
        url = f"http://127.0.0.1:{self.processes[id].facts['metrics_port']}{path}"
        try:
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self, id):
        lines = self.get(id, "/metrics")[1].splitlines()
        return {
            name.removeprefix("bowstring_"): float(value)
            for name, _, value in (line.rpartition(" ") for line in lines)
            if name.startswith("bowstring_")
        }

    def command(self, *arguments):
        return [sys.executable, "-m", "bowstring", *map(str, arguments)]

    @property
    def environment(self):
        return os.environ | {"BOWSTRING_BOOTSTRAP_SERVERS": self.bootstrap_servers, "NO_COLOR": "1"}

    def cli(self, *arguments):
        done = subprocess.run(
            self.command(*arguments, "--timeout", HANG_S),
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=HANG_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = OperatedCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def admin(cluster):
    with Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS) as made:
        yield made


def produce(cluster, topic, count=300, partitions=2):
    with Producer(cluster.bootstrap_servers, delivery_timeout_ms=TIMEOUT_MS) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def consumed(cluster, topic, count):
    with Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        found = []
        wait_until(lambda: found.extend(consumer.poll(1.0)) or len(found) >= count)
    return sorted(int(record.value) for record in found)


def create(admin, topic, *replicas):
    admin.create_topics([NewTopic(topic, assignments=dict(enumerate(replicas)))])


def replicas(admin, topic):
    return {number: part.replicas for number, part in admin.describe_topic(topic).partitions.items()}


def test_a_plan_is_executed_verified_and_led_back(cluster, admin, tmp_path):
    create(admin, "moved", (10, 11), (10, 11))
    produce(cluster, "moved")
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    told = cluster.cli("reassign", "plan", "moved", "--brokers", "11,12", "-o", plan)
    assert told.code == 0 and "2 replicas to copy" in told.err, told.err
    begun = cluster.cli("reassign", "execute", plan, "--throttle", 50_000_000, "--save-current", back)
    assert begun.code == 0, begun.err
    rates = admin.describe_configs("broker", "12", names=["follower.replication.throttled.rate"])
    assert rates["follower.replication.throttled.rate"].value == "50000000"
    listed = admin.describe_configs("topic", "moved")["follower.replication.throttled.replicas"].value
    assert sorted(listed.split(",")) == ["0:12", "1:12"]
    done = cluster.cli("reassign", "verify", plan, "--wait", "--json")
    assert done.code == 0 and {row["state"] for row in done.json} == {"done"}, done.err
    assert all(set(each) == {11, 12} for each in replicas(admin, "moved").values())
    assert admin.describe_configs("topic", "moved")["follower.replication.throttled.replicas"].is_default
    assert not admin.describe_configs("broker", "12", names=["follower.replication.throttled.rate"])
    assert consumed(cluster, "moved", 300) == [*range(300)]
    undone = cluster.cli("reassign", "execute", back, "--wait")
    assert undone.code == 0, undone.err
    assert replicas(admin, "moved") == {0: (10, 11), 1: (10, 11)}


def test_kafkas_tool_reads_our_plans_and_we_read_its(cluster, admin, tmp_path):
    create(admin, "both-tools", (10, 11))
    ours = tmp_path / "ours.json"
    assert cluster.cli("reassign", "plan", "both-tools", "--brokers", "11,12", "-o", ours).code == 0
    tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    said = java_tool(
        tool,
        *("--bootstrap-server", cluster.bootstrap_servers),
        *("--reassignment-json-file", str(ours), "--execute", "--throttle", "50000000"),
    )
    assert "Successfully started" in said
    current = said.split("Current partition replica assignment")[1].strip().splitlines()[0]
    theirs = tmp_path / "theirs.json"
    theirs.write_text(current)
    assert cluster.cli("reassign", "verify", ours, "--wait").code == 0
    assert set(replicas(admin, "both-tools")[0]) == {11, 12}
    undone = cluster.cli("reassign", "execute", theirs, "--wait")
    assert undone.code == 0, undone.err
    assert replicas(admin, "both-tools") == {0: (10, 11)}


def test_a_reassignment_that_cannot_end_is_told_and_cancelled(cluster, admin, tmp_path):
    create(admin, "stuck", (10, 11))
    plan = tmp_path / "plan.json"
    entry = {"topic": "stuck", "partition": 0, "replicas": [10, 12]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    cluster.kill(12)
    wait_until(lambda: [each.fenced for each in admin.describe_brokers()] == [False, False, True])
    try:
        assert cluster.cli("reassign", "execute", plan).code == 0
        moving = cluster.cli("reassign", "verify", plan, "--json")
        assert moving.code == 1 and [row["state"] for row in moving.json] == ["moving"]
        assert "1 are moving" in moving.err
        again = cluster.cli("reassign", "execute", plan)
        assert again.code == 1 and "1 reassignments are under way, such as that of stuck-0" in again.err
        gone = cluster.cli("reassign", "cancel", plan, "--json")
        assert gone.code == 0 and gone.json == [{"topic": "stuck", "partition": 0}], gone.err
    finally:
        cluster.start(12)
    assert admin.list_reassignments() == {} and replicas(admin, "stuck") == {0: (10, 11)}
    other = cluster.cli("reassign", "verify", plan, "--json")
    assert other.code == 1 and [row["state"] for row in other.json] == ["other"]


def test_kafkas_tool_finds_a_hanging_transaction_on_any_broker(cluster, admin):
    """A batch of a transaction without a coordinator: its leader and its followers report it."""
    create(admin, "hangs", (10, 11, 12))
    checked = "transaction.partition.verification.enable"
    admin.alter_configs("broker", "", set={checked: "false"})
    data = batch(producer_id=4_711, epoch=0, sequence=0, attributes=TRANSACTIONAL)
    partition = PartitionProduceData(index=0, records=data)
    request = ProduceRequest(
        transactional_id="gone",
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name="hangs", partition_data=[partition])],
    )
    client = WireClient(cluster.broker_ports[10])

    def is_taken():
        (topic,) = client.ask(request, 11).responses
        return topic.partition_responses[0].error_code == 0

    try:
        wait_until(is_taken, "the leader still asks the coordinator", every_s=0.2)
    finally:
        client.close()
        admin.alter_configs("broker", "", delete=[checked])
    place = TopicPartition("hangs", 0)
    for broker in BROKERS:
        at = ("--bootstrap-server", cluster.bootstrap_servers)
        found = java_tool(f"{TOOLS}.TransactionsCommand", *at, "find-hanging", "--broker-id", str(broker))
        (row,) = (line.split() for line in found.splitlines() if line.startswith("hangs"))
        assert row[:3] == ["hangs", "0", "4711"], found
    (state,) = admin.describe_producers([place])[place]
    admin.abort_transaction(state)
    assert admin.describe_producers([place])[place][0].transaction_start_offset is None
    admin.delete_topics(["hangs"])  # a broker can leave only without partitions that need three


def test_preferred_leaders_are_elected(cluster, admin):
    create(admin, "elected", (10, 11))
    partition = TopicPartition("elected", 0)
    wait_until(lambda: len(admin.describe_topic("elected").partitions[0].isr) == 2)
    admin.alter_reassignments({partition: (11, 10)})  # the leader stays
    wait_until(lambda: admin.list_reassignments() == {})
    done = cluster.cli("leaders", "elect", "--topic", "elected", "--partition", 0, "--json")
    assert done.code == 0 and done.json == [{"topic": "elected", "partition": 0, "result": "elected"}], (
        done.err
    )
    assert admin.describe_topic("elected").partitions[0].leader == 11
    again = cluster.cli("leaders", "elect", "--topic", "elected", "--json")
    assert again.code == 0 and again.json[0]["result"] == "ELECTION_NOT_NEEDED"
    missing = cluster.cli("leaders", "elect", "--topic", "elected", "-p", 7)
    assert missing.code == 1 and "UNKNOWN_TOPIC_OR_PARTITION" in missing.err


def test_the_quorum_is_described(cluster):
    found = cluster.cli("quorum", "describe", "--json").json
    roles = {node["id"]: node["role"] for node in found["nodes"]}
    assert sorted(roles.values()) == ["leader", *["observer"] * 3, "voter", "voter"]
    assert roles[found["leader_id"]] == "leader"
    assert {id for id, role in roles.items() if role == "observer"} == set(BROKERS)
    refused = cluster.cli("quorum", "remove", 1, "--directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert refused.code == 1 and "UNSUPPORTED_VERSION" in refused.err  # its voters are configured


def test_brokers_are_described(cluster, admin):
    rows = {row["id"]: row for row in cluster.cli("brokers", "describe", "--json").json}
    assert set(rows) == set(BROKERS)
    assert [rows[id]["rack"] for id in BROKERS] == ["a", "b", "a"]
    assert all(row["fenced"] is False and row["log_dirs"][0]["error"] is None for row in rows.values())
    topics = admin.topics(internal=True).values()
    parts = [part for topic in topics for part in topic.partitions.values()]
    for id in BROKERS:
        assert rows[id]["leaders"] == sum(part.leader == id for part in parts)
        assert rows[id]["replicas"] == sum(id in part.replicas for part in parts)
    assert "brokers are" not in cluster.cli("brokers", "describe", 10).err
    unknown = cluster.cli("brokers", "describe", 77)
    assert unknown.code == 2 and "there is no broker 77; existing brokers: 10, 11, 12" in unknown.err


def test_health_and_readiness_and_metrics(cluster, admin):
    nodes = (1, 2, 3, *BROKERS)
    assert {cluster.get(id, "/health") for id in nodes} == {(200, "alive\n")}
    for id in nodes:
        wait_until(lambda id=id: cluster.get(id, "/ready") == (200, "ready\n"))
    create(admin, "measured", (10, 11))
    produce(cluster, "measured", partitions=1)
    quorum = {id: cluster.metrics(id) for id in nodes}
    active = [id for id in (1, 2, 3) if quorum[id]["controller_active"]]
    assert len(active) == 1 and {each["quorum_leader_id"] for each in quorum.values()} == {active[0]}
    assert all(quorum[id]['quorum_state{state="observer"}'] for id in BROKERS)
    leading = quorum[active[0]]
    assert leading['quorum_state{state="leader"}'] and leading["quorum_commits_total"] > 0
    assert (leading["controller_active_brokers"], leading["controller_fenced_brokers"]) == (3, 0)
    elections = leading["controller_leader_elections_total"]
    wait_until(lambda: cluster.metrics(10)["at_min_isr_partitions"] == 0)
    cluster.processes[10].process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: cluster.metrics(active[0])["controller_fenced_brokers"] == 1)
        wait_until(lambda: cluster.metrics(11)["under_replicated_partitions"] >= 1)
        assert cluster.metrics(11)["at_min_isr_partitions"] >= 1
        assert cluster.metrics(active[0])["controller_leader_elections_total"] > elections
    finally:
        cluster.processes[10].process.send_signal(signal.SIGCONT)
    wait_until(lambda: cluster.metrics(11)["under_replicated_partitions"] == 0)
    after = cluster.metrics(11)
    assert after["isr_expands_total"] >= 1 and after["broker_fenced"] == 0
    wait_until(lambda: cluster.metrics(10)["replica_max_lag"] == 0)
    assert cluster.get(10, "/ready") == (200, "ready\n")


def test_a_broker_is_decommissioned(cluster, admin):
    """Runs last: afterwards the cluster has two brokers."""
    create(admin, "three", (10, 11, 12))
    refused = cluster.cli("brokers", "decommission", 12)
    assert (
        refused.code == 1
        and "three-0 has 3 replicas, and without broker 12 only 2 brokers run" in refused.err
    )
    admin.delete_topics(["three"])
    create(admin, "leaves", (12, 11), (11, 12))
    produce(cluster, "leaves")
    running = subprocess.Popen(
        cluster.command("brokers", "decommission", 12, "--throttle", 50_000_000, "--timeout", HANG_S),
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment,
    )
    try:
        for line in running.stderr:
            if "stop it now" in line:
                break
        assert all(12 not in each for each in replicas(admin, "leaves").values())
        assert cluster.processes.pop(12).stop() == 0
        assert running.wait(HANG_S) == 0, running.stderr.read()
    finally:
        running.kill()
        running.wait()
        running.stderr.close()
    assert [each.id for each in admin.describe_brokers()] == [10, 11]
    assert consumed(cluster, "leaves", 300) == [*range(300)]


def test_voters_are_added_and_removed(tmp_path):
    """A quorum with voters in the log; node 4 joins and leaves."""
    made = QuorumOfProcesses(tmp_path, dynamic=True)
    made.broker_ports = {}
    try:
        made.start()
        made.ports[4] = steady_port()
        made.write_config(4)
        del made.ports[4]
        made.format(4, "--no-initial-controllers")
        made.start(4)
        port = steady_port()
        made.write_config(10, "broker", listeners=f"PLAINTEXT://127.0.0.1:{port}")
        made.format(10, "--ignore-formatted")
        made.start(10)
        environment = os.environ | {"BOWSTRING_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}"}

        def cli(*arguments):
            command = [sys.executable, "-m", "bowstring", "quorum", *map(str, arguments), "--json"]
            return subprocess.run(
                [*command, "--timeout", str(HANG_S)],
                capture_output=True,
                text=True,
                env=environment,
                timeout=HANG_S,
                check=False,
            )

        def voters():
            nodes = json.loads(cli("describe").stdout)["nodes"]
            return sorted(node["id"] for node in nodes if node["role"] != "observer")

        assert voters() == [1, 2, 3]
        added = cli("add", "--config", made.files[4])
        assert added.returncode == 0, added.stderr
        assert voters() == [1, 2, 3, 4]
        removed = cli("remove", 4)
        assert removed.returncode == 0, removed.stderr
        assert voters() == [1, 2, 3]
        twice = cli("remove", 4)
        assert twice.returncode == 2 and "node 4 does not vote; those that do: 1, 2, 3" in twice.stderr
    finally:
        made.stop()
