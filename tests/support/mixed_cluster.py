"""Clusters of Bowstring and Apache Kafka processes, on the same configs and directories."""

import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import api_versions as av
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import elect_leaders as el
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.partitioning import coordinator_partition
from bowstring.protocol.schema import Request
from tests.support import peers
from tests.support.quorum_nodes import CLUSTER_ID
from tests.support.quorum_processes import directory_id, run_format
from tests.support.secured_nodes import secured
from tests.support.serving import hear_hangups, steady_port
from tests.support.target import kafka_java
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient

KAFKA = "kafka"
BOWSTRING = "bowstring"
BOTH = "broker,controller"

# A Kafka broker that becomes leader between two pipelined batches refuses the first and takes the second for
# a gap. librdkafka then raises its epoch, so a batch that another leader stored but did not acknowledge is
# stored twice.
ONE_IN_FLIGHT = {"max.in.flight.requests.per.connection": 1}

# The internal topics, and the configs that their coordinators need.
INTERNAL = {
    "__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer"},
    "__transaction_state": {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
    },
    "__share_group_state": {"cleanup.policy": "delete", "retention.ms": "-1", "min.insync.replicas": "2"},
}

_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
"""


@dataclass
class Node:
    """One node: its program may change between two starts."""

    id: int
    program: str
    roles: str
    port: int
    controller_port: int
    process: subprocess.Popen[bytes] | None = None
    # start of the process's log
    log_begins: int = 0

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles


class MixedCluster:
    """Nodes 1 to n. `nodes` gives the program and the roles of each: `[(KAFKA, BOTH), (BOWSTRING, "broker")]`.

    Directories of controllers are formatted by the node's first program, so that few JVMs are started. With
    `is_secured` nodes reach one another over SASL_SSL.
    """

    def __init__(
        self,
        directory: Path,
        nodes: list[tuple[str, str]],
        *,
        configs: Mapping[str, str] | None = None,
        is_secured: bool = False,
    ) -> None:
        self.directory = directory
        self.is_secured = is_secured
        self.configs = dict(configs or {})
        self.nodes = {
            id: Node(id, program, roles, steady_port(), steady_port())
            for id, (program, roles) in enumerate(nodes, 1)
        }
        (directory / "log4j2.properties").write_text(_LOG4J)
        for node in self.nodes.values():
            self._write_config(node)
        for node in self.nodes.values():
            self._format(node)

    # ------------------------------------------------------------ preparation

    def file(self, id: int) -> Path:
        return self.directory / f"{id}.properties"

    def data(self, id: int) -> Path:
        return self.directory / str(id)

    def _controllers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "controller" in node.roles]

    def _write_config(self, node: Node) -> None:
        listeners = []
        if node.is_broker:
            listeners.append(f"PLAINTEXT://127.0.0.1:{node.port}")
            if self.is_secured:
                listeners.append(f"BETWEEN://127.0.0.1:{steady_port()}")
        if "controller" in node.roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{node.controller_port}")
        settings = {
            "node.id": str(node.id),
            "process.roles": node.roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{each.controller_port}" for each in self._controllers()
            ),
            "log.dirs": str(self.data(node.id)),
            "controller.quorum.election.timeout.ms": "1000",
            "controller.quorum.fetch.timeout.ms": "2000",
            "controller.quorum.election.backoff.max.ms": "1000",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "3000",
            # A broker that was paused is fenced, and leads again soon.
            "leader.imbalance.check.interval.seconds": "1",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": "3",
            "share.coordinator.state.topic.min.isr": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "16777216",
            # Every node writes snapshots often, and starts from one.
            "metadata.log.max.record.bytes.between.snapshots": "4000",
            **self.configs,
        }
        if node.is_broker:
            settings["inter.broker.listener.name"] = "BETWEEN" if self.is_secured else "PLAINTEXT"
        if self.is_secured:
            settings |= secured(self.directory, "between", "controller")
            settings["listener.security.protocol.map"] = (
                "PLAINTEXT:PLAINTEXT,BETWEEN:SASL_SSL,CONTROLLER:SASL_SSL"
            )
        self.file(node.id).write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _format(self, node: Node) -> None:
        config = ["--config", str(self.file(node.id)), "--cluster-id", CLUSTER_ID]
        listed = ",".join(
            f"{each.id}@127.0.0.1:{each.controller_port}:{directory_id(each.id)}"
            for each in self._controllers()
        )
        voters = (
            ["--initial-controllers", listed] if "controller" in node.roles else ["--no-initial-controllers"]
        )
        if node.program == BOWSTRING or "controller" not in node.roles:
            done = run_format(*config, *voters)
        else:
            command = [*self._java(), "kafka.tools.StorageTool", "format", *config, *voters]
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _java(self) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"
        return [*kafka_java(), "-Xmx320m", logging, "-cp", peers.kafka_classpath()]

    # ------------------------------------------------------------ start and stop

    def start(self, *ids: int) -> None:
        """Starts nodes together, each with the program that it has now, and waits until they serve."""
        for id in ids or tuple(self.nodes):
            node = self.nodes[id]
            if node.program == BOWSTRING:
                command = [sys.executable, "-m", "bowstring", "serve", "--log-format", "json", "--config"]
            else:
                command = [*self._java(), "kafka.Kafka"]
            # A pipe without a reader would block a broker that logs much.
            with self._log(id).open("ab") as log:
                node.log_begins = log.tell()
                node.process = subprocess.Popen(
                    [*command, str(self.file(id))],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    preexec_fn=hear_hangups,
                )
        for id in ids or tuple(self.nodes):
            self._wait_until_served(self.nodes[id])

    def _wait_until_served(self, node: Node) -> None:
        def serves() -> bool:
            assert node.process is not None
            assert node.process.poll() is None, self.said_by(node.id)
            if node.program == BOWSTRING:
                return '"message": "ready"' in self._said(node)
            try:
                client = WireClient(node.port if node.is_broker else node.controller_port)
            except OSError:
                return False
            try:
                return client.ask(av.ApiVersionsRequest(), 0).error_code == 0
            finally:
                client.close()

        wait_until(serves, lambda: self.said_by(node.id), every_s=0.1)

    def _log(self, id: int) -> Path:
        return self.directory / f"{id}.log"

    def _said(self, node: Node) -> str:
        """The log of a node's current process."""
        with self._log(node.id).open("rb") as log:
            log.seek(node.log_begins)
            return log.read().decode()

    def said_by(self, id: int) -> str:
        """The end of a node's log."""
        return self._said(self.nodes[id])[-4000:]

    def truncations(self, id: int) -> str:
        """A node's log lines about truncations."""
        node = self.nodes[id]
        words = "a follower cut its log" if node.program == BOWSTRING else "Truncating"
        return "\n".join(line for line in self._said(node).splitlines() if words in line)

    def send(self, id: int, number: int) -> None:
        """Sends a signal to a node."""
        process = self.nodes[id].process
        assert process is not None
        process.send_signal(number)

    def end(self, id: int, number: int = signal.SIGTERM) -> None:
        """Sends a signal to a node and waits until it has ended."""
        self.send(id, number)
        node = self.nodes[id]
        assert node.process is not None
        status = node.process.wait(HANG_S)
        node.process = None
        # A JVM ends with 128 + 15 after its shutdown hooks.
        assert number == signal.SIGKILL or status in (0, 143), (id, status)

    def kill(self, id: int) -> None:
        self.end(id, signal.SIGKILL)

    def stop(self) -> None:
        """Ends all running nodes. The data is not needed: all are killed."""
        for node in self.nodes.values():
            if node.process is not None:
                self.kill(node.id)

    # ------------------------------------------------------------ addresses

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values() if node.is_broker)

    def by_program(self, program: str) -> list[int]:
        """The ids of the brokers that run a program."""
        return [node.id for node in self.nodes.values() if node.is_broker and node.program == program]

    def ask(self, id: int, request: Request, version: int | None = None) -> Any:
        """Sends one request to a broker, by default in its newest version."""
        client = WireClient(self.nodes[id].port)
        try:
            return client.ask(request, API_VERSIONS[request.api_key].highest if version is None else version)
        finally:
            client.close()

    # ------------------------------------------------------------ coordinators

    def create_internal_topics(self, first: int, second: int, third: int) -> None:
        """Creates the coordinators' topics with two partitions each, led by two brokers.

        Otherwise controllers choose the leaders, and one of two brokers may coordinate nothing.
        """
        made = [(first, second, third), (second, third, first)]
        for name, configs in INTERNAL.items():
            self.create_topic(name, made, through=third, **configs)

    # ------------------------------------------------------------ topics

    def create_topic(
        self, name: str, assignments: Sequence[Sequence[int]], *, through: int, **configs: str
    ) -> None:
        """Creates a topic with these replicas by one request, and waits until all brokers have it."""
        topic = ct.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                ct.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(assignments)
            ],
            configs=[ct.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        (answer,) = self.ask(through, ct.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        assert answer.error_code == 0, (Errors.of(answer.error_code), answer.error_message)
        for index, replicas in enumerate(assignments):
            self.wait_for_isr(name, index, replicas)

    def partitions(self, topic: str, id: int) -> list[md.MetadataResponsePartition]:
        """A broker's metadata of a topic's partitions."""
        (answer,) = self.ask(id, md.MetadataRequest(topics=[md.MetadataRequestTopic(name=topic)])).topics
        return sorted(answer.partitions, key=lambda each: each.partition_index)

    @property
    def running(self) -> list[int]:
        """The ids of the running brokers."""
        return [node.id for node in self.nodes.values() if node.is_broker and node.process is not None]

    def stopped(self) -> list[int]:
        """The nodes that do not run."""
        return [node.id for node in self.nodes.values() if node.process is None]

    def wait_for_isr(self, topic: str, index: int, isr: Iterable[int]) -> None:
        """Waits until all running brokers have this ISR, and a leader."""
        wanted = set(isr)

        def known() -> bool:
            found = [self.partitions(topic, id) for id in self.running]
            return all(
                len(each) > index and set(each[index].isr_nodes) == wanted and each[index].leader_id >= 0
                for each in found
            )

        wait_until(known, lambda: (wanted, [self.partitions(topic, id) for id in self.running]), every_s=0.1)

    def leader(self, topic: str, index: int, *, other_than: int = -1) -> int:
        """Waits until all running brokers agree on a leader, and returns it."""

        def found() -> int:
            leaders = {self.partitions(topic, id)[index].leader_id for id in self.running}
            return leaders.pop() if len(leaders) == 1 and not leaders & {-1, other_than} else 0

        return int(wait_until(found, lambda: self.partitions(topic, self.running[0]), every_s=0.1))

    def wait_for_preferred(self, topic: str, assignments: Sequence[Sequence[int]]) -> None:
        """Waits until all replicas are in sync, and the controller has moved the leaders to the first ones."""
        for index, replicas in enumerate(assignments):
            self.wait_for_isr(topic, index, replicas)
        preferred = [replicas[0] for replicas in assignments]
        wait_until(
            lambda: [self.leader(topic, index) for index in range(len(preferred))] == preferred,
            lambda: (preferred, self.partitions(topic, self.running[0])),
            every_s=0.1,
        )

    def elect_preferred(self, topic: str, through: int) -> None:
        """Moves the leaders of a topic back to their preferred replicas."""
        indexes = [each.partition_index for each in self.partitions(topic, through)]
        chosen = [el.TopicPartitions(topic=topic, partitions=indexes)]
        request = el.ElectLeadersRequest(election_type=0, topic_partitions=chosen, timeout_ms=30_000)
        answer = self.ask(through, request)
        assert answer.error_code == 0, Errors.of(answer.error_code)

    # ------------------------------------------------------------ files

    def stored(self, id: int, topic: str, index: int) -> bytes:
        """All segments of a replica, one after the other."""
        directory = self.data(id) / f"{topic}-{index}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def check_equal_logs(self, topic: str, assignments: Sequence[Sequence[int]]) -> None:
        """Waits until all replicas hold the same bytes. A log's tail may still be in memory at first."""
        for index, replicas in enumerate(assignments):
            self._wait_for_equal_logs(topic, index, replicas)

    def _wait_for_equal_logs(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        def sizes() -> tuple[str, int, dict[int, int]]:
            return topic, index, {id: len(self.stored(id, topic, index)) for id in replicas}

        def are_equal() -> bool:
            logs = {self.stored(id, topic, index) for id in replicas}
            return len(logs) == 1 and b"" not in logs

        wait_until(are_equal, sizes, every_s=0.1)


def key_of(prefix: str, partition: int, partitions: int = 2) -> str:
    """A transactional id or group name that hashes to a partition of its coordinators' topic."""
    names = (f"{prefix}-{number}" for number in count())
    return next(name for name in names if coordinator_partition(name, partitions) == partition)
