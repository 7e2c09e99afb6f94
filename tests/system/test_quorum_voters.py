"""Kafka's tool adds and removes voters while the quorum works; formatting refuses impossible quorums."""

import pytest

from bowstring.protocol.ids import format_uuid
from tests.support.java_tools import TOOLS, java_tool
from tests.support.quorum_nodes import CLUSTER_ID
from tests.support.quorum_processes import QuorumOfProcesses, run_format
from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S, wait_until

TOOL = f"{TOOLS}.MetadataQuorumCommand"


@pytest.fixture
def quorum(tmp_path):
    made = QuorumOfProcesses(tmp_path, dynamic=True)
    try:
        yield made
    finally:
        made.stop()


def voter_ids(quorum):
    return {voter.replica_id for voter in quorum.leader(among=(1, 2, 3)).current_voters}


def observer_ids(quorum):
    return {each.replica_id for each in quorum.leader(among=(1, 2, 3)).observers}


def add_fourth(quorum, **configs):
    quorum.ports[4] = steady_port()
    quorum.write_config(4, **configs)
    quorum.format(4, "--no-initial-controllers")
    quorum.start(4)


def directory_id_of(quorum, id):
    lines = (quorum.directory / str(id) / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))


def test_kafkas_tool_adds_and_removes_a_controller(quorum):
    quorum.start()
    quorum.leader()
    first_three = quorum.bootstrap
    add_fourth(quorum)
    wait_until(lambda: 4 in observer_ids(quorum))
    config = str(quorum.files[4])
    java_tool(TOOL, "--bootstrap-controller", first_three, "--command-config", config, "add-controller")
    wait_until(lambda: voter_ids(quorum) == {1, 2, 3, 4})
    quorum.kill(4)
    quorum.start(4)
    java_tool(
        TOOL,
        *("--bootstrap-controller", first_three, "remove-controller", "--controller-id", "4"),
        *("--controller-directory-id", directory_id_of(quorum, 4)),
    )
    wait_until(lambda: voter_ids(quorum) == {1, 2, 3})


def test_a_controller_joins_by_itself(quorum):
    quorum.start()
    quorum.leader()
    add_fourth(quorum, **{"controller.quorum.auto.join.enable": "true"})
    wait_until(lambda: voter_ids(quorum) == {1, 2, 3, 4})


def test_a_voter_that_moves_is_found_again(quorum):
    quorum.start()
    first = quorum.leader()
    moved = next(id for id in (1, 2, 3) if id != first.leader_id)
    quorum.kill(moved)
    quorum.ports[moved] = steady_port()
    quorum.write_config(moved)
    quorum.start(moved)
    others = tuple(id for id in (1, 2, 3) if id != moved)

    def is_told():
        status = quorum.leader(among=others)
        voter = next(each for each in status.current_voters if each.replica_id == moved)
        return voter.log_end_offset == status.high_watermark

    wait_until(is_told)


def test_format_says_what_is_wrong(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=1\nprocess.roles=controller\nlog.dirs={tmp_path}/data\n"
        "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    done = run_format("--config", str(file), "--cluster-id", CLUSTER_ID)
    assert done.returncode == 1
    assert "give --standalone" in " ".join(done.stderr.split())
    assert not (tmp_path / "data").exists()
    assert run_format("--random-uuid").stdout.strip()
    node = Process("--config", str(file), wait=False)
    node.wait_for_text("is not formatted")
    assert node.process.wait(timeout=HANG_S) == 1
    node.stop()


def test_configured_voters_come_into_the_log_and_change_then(tmp_path):
    quorum = QuorumOfProcesses(tmp_path, dynamic=False)
    features = f"{TOOLS}.FeatureCommand"
    try:
        quorum.start()
        quorum.leader()

        def is_upgraded():
            # The leader must have the directories of the others first.
            wanted = ("upgrade", "--feature", "kraft.version=1")
            try:
                said = java_tool(features, "--bootstrap-controller", quorum.bootstrap, *wanted)
            except AssertionError as error:
                if "has not told its directory" in str(error) or "has not registered" in str(error):
                    return False
                raise
            return "was upgraded to 1" in said

        wait_until(is_upgraded)
        described = java_tool(features, "--bootstrap-controller", quorum.bootstrap, "describe")
        [line] = [each for each in described.splitlines() if "kraft.version" in each]
        assert "FinalizedVersionLevel: 1" in line
        directories = {each.replica_directory_id for each in quorum.leader().current_voters}
        assert {format_uuid(each) for each in directories} == {
            directory_id_of(quorum, id) for id in (1, 2, 3)
        }
        for id in (1, 2, 3):
            quorum.kill(id)
        quorum.start(1, 2, 3)
        quorum.leader()
        first_three, quorum.dynamic = quorum.bootstrap, True
        add_fourth(quorum)
        wait_until(lambda: 4 in observer_ids(quorum))
        config = str(quorum.files[4])
        java_tool(TOOL, "--bootstrap-controller", first_three, "--command-config", config, "add-controller")
        wait_until(lambda: voter_ids(quorum) == {1, 2, 3, 4})
    finally:
        quorum.stop()
