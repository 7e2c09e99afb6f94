"""Apache Kafka's controller in one quorum with ours: they elect, replicate and commit together."""

import shutil
import signal
import subprocess
from typing import ClassVar

import pytest

from tests.support import peers
from tests.support.quorum_nodes import CLUSTER_ID
from tests.support.quorum_processes import QuorumOfProcesses, directory_id
from tests.support.target import kafka_java
from tests.support.waiting import HANG_S, wait_until

KAFKA = 3


class MixedQuorum(QuorumOfProcesses):
    """Nodes 1 and 2 are ours, node 3 is Apache Kafka."""

    def __init__(self, directory, *, dynamic):
        self.kafka = None
        super().__init__(directory, dynamic=dynamic)

    MORE: ClassVar[dict[str, str]] = {}

    def write_config(self, id, role="controller", **more):
        # Times for a JVM that starts.
        times = {
            "controller.quorum.election.timeout.ms": "1000",
            "controller.quorum.fetch.timeout.ms": "2000",
            "controller.quorum.election.backoff.max.ms": "1000",
        }
        return super().write_config(id, role, **times, **self.MORE, **more)

    def format(self, id, *options):
        if id != KAFKA:
            return super().format(id, *options)
        command = [*kafka_java(), "-cp", peers.kafka_classpath(), "kafka.tools.StorageTool", "format"]
        command += ["-t", CLUSTER_ID, "-c", str(self.files[id])]
        if self.dynamic:
            listed = [f"{each}@127.0.0.1:{port}:{directory_id(each)}" for each, port in self.ports.items()]
            command += ["--initial-controllers", ",".join(listed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return None

    def start_kafka(self):
        command = [*kafka_java(), "-cp", peers.kafka_classpath(), "kafka.Kafka"]
        with (self.directory / "kafka.log").open("ab") as log:
            self.kafka = subprocess.Popen(
                [*command, str(self.files[KAFKA])], stdout=log, stderr=subprocess.STDOUT
            )

    def kill_kafka(self):
        self.kafka.kill()
        self.kafka.wait(HANG_S)
        self.kafka = None

    def stop(self):
        if self.kafka is not None:
            self.kill_kafka()
        super().stop()

    def said_by(self, id):
        """What a node says about the quorum; None while it does not listen or does not lead."""
        try:
            said = self.describe(id)
        except OSError:
            return None
        return said if said.error_code == 0 and said.high_watermark > 0 else None

    def first_offset(self, id):
        """Where a node's metadata log begins."""
        logs = (self.directory / str(id) / "__cluster_metadata-0").glob("*.log")
        return min((int(each.stem) for each in logs), default=0)

    def agreed(self, *ids):
        """What the leader says, once these nodes have all that it has committed."""

        def found():
            for id in ids:
                said = self.said_by(id)
                if said is None:
                    continue
                ends = {voter.replica_id: voter.log_end_offset for voter in said.current_voters}
                if all(ends[each] >= said.high_watermark for each in ids):
                    return said
            return None

        return wait_until(found, "the nodes do not agree")


class PrunedQuorum(MixedQuorum):
    """Metadata logs lose their begin to snapshots soon."""

    MORE: ClassVar[dict[str, str]] = {
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "metadata.log.segment.ms": "200",
        "metadata.max.retention.bytes": "1000",
        "metadata.max.retention.ms": "200",
        "metadata.max.idle.interval.ms": "50",
    }


@pytest.fixture
def pruned(tmp_path):
    made = PrunedQuorum(tmp_path, dynamic=False)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(params=[False, True], ids=["configured", "dynamic"])
def mixed(tmp_path, request):
    made = MixedQuorum(tmp_path, dynamic=request.param)
    try:
        yield made
    finally:
        made.stop()


def test_kafka_and_ours_form_a_majority(mixed):
    mixed.start(1)
    mixed.start_kafka()
    first = mixed.agreed(1, KAFKA)
    mixed.start(2)
    all_three = mixed.agreed(1, 2, KAFKA)
    assert all_three.high_watermark >= first.high_watermark
    mixed.kill(1)
    second = mixed.agreed(2, KAFKA)
    assert second.high_watermark >= all_three.high_watermark
    mixed.start(1)
    mixed.agreed(1, 2, KAFKA)
    mixed.kill_kafka()
    third = mixed.agreed(1, 2)
    mixed.start_kafka()
    assert mixed.agreed(1, 2, KAFKA).high_watermark >= third.high_watermark


def test_a_paused_kafka_catches_up(mixed):
    mixed.start(1, 2)
    mixed.start_kafka()
    before = mixed.agreed(1, 2, KAFKA)
    mixed.kafka.send_signal(signal.SIGSTOP)
    ours = mixed.agreed(1, 2)
    mixed.kafka.send_signal(signal.SIGCONT)
    after = mixed.agreed(1, 2, KAFKA)
    assert after.leader_epoch >= ours.leader_epoch >= before.leader_epoch


def test_snapshots_are_fetched_from_one_another(pruned):
    pruned.start(1, 2)
    wait_until(lambda: min(pruned.first_offset(1), pruned.first_offset(2)) > 0, "the logs keep their begin")
    pruned.start_kafka()
    pruned.agreed(1, 2, KAFKA)
    assert pruned.first_offset(KAFKA) > 0, "it began with a snapshot of ours"
    pruned.kill(2)
    shutil.rmtree(pruned.directory / "2")
    pruned.format(2)

    def kafka_leads():
        if pruned.agreed(1, KAFKA).leader_id == KAFKA and pruned.first_offset(KAFKA) > 0:
            return True
        pruned.kill(1)
        pruned.start(1)  # the other one has waited for longer, and is elected
        return False

    wait_until(kafka_leads, "Kafka is never elected", every_s=1)
    pruned.start(2)
    pruned.agreed(2, KAFKA)
    assert pruned.first_offset(2) > 0, "it began with a snapshot of Kafka's"
