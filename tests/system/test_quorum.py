"""Controllers in processes of their own: elections, kill -9, pauses, and Kafka's own tool."""

import signal

import pytest

from tests.support.java_tools import TOOLS, java_tool
from tests.support.quorum_processes import QuorumOfProcesses
from tests.support.waiting import wait_until


@pytest.fixture(params=[False, True], ids=["configured", "dynamic"])
def quorum(tmp_path, request):
    made = QuorumOfProcesses(tmp_path, dynamic=request.param)
    try:
        yield made
    finally:
        made.stop()


def test_a_killed_leader_is_replaced_and_comes_back(quorum):
    quorum.start()
    first = quorum.leader()
    quorum.kill(first.leader_id)
    second = quorum.leader()
    assert second.leader_id != first.leader_id
    assert second.leader_epoch > first.leader_epoch
    assert second.high_watermark >= first.high_watermark
    quorum.start(first.leader_id)
    quorum.wait_until_equal()


def test_all_are_killed_and_start_again(quorum):
    quorum.start()
    before = quorum.leader()
    for id in list(quorum.processes):
        quorum.kill(id)
    quorum.start()
    after = quorum.leader()
    assert after.leader_epoch > before.leader_epoch
    assert after.high_watermark > before.high_watermark
    assert {voter.replica_id for voter in after.current_voters} == {1, 2, 3}
    quorum.wait_until_equal()


def test_a_paused_leader_is_replaced_and_follows(quorum):
    quorum.start()
    first = quorum.leader()
    paused = quorum.processes[first.leader_id].process
    paused.send_signal(signal.SIGSTOP)
    others = tuple(id for id in quorum.processes if id != first.leader_id)
    second = quorum.leader(among=others)
    assert second.leader_epoch > first.leader_epoch
    paused.send_signal(signal.SIGCONT)
    wait_until(lambda: quorum.describe(first.leader_id).leader_epoch >= second.leader_epoch)
    quorum.wait_until_equal()


def test_without_a_majority_nobody_leads(quorum):
    quorum.start()
    quorum.leader()
    left, *gone = quorum.processes
    for id in gone:
        quorum.kill(id)
    wait_until(lambda: quorum.describe(left).error_code != 0)
    quorum.start(gone[0])
    quorum.leader()


def test_kafkas_tool_describes_the_quorum(quorum):
    quorum.start()
    leader = quorum.leader()
    quorum.wait_until_equal()
    tool = f"{TOOLS}.MetadataQuorumCommand"
    status = java_tool(tool, "--bootstrap-controller", quorum.bootstrap, "describe", "--status")
    facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert int(facts["LeaderId"]) == leader.leader_id
    assert int(facts["LeaderEpoch"]) == leader.leader_epoch
    assert int(facts["HighWatermark"]) >= leader.high_watermark
    assert facts["CurrentVoters"].count('"id"') == 3
    replicas = java_tool(tool, "--bootstrap-controller", quorum.bootstrap, "describe", "--replication")
    roles = [line.split()[-1] for line in replicas.splitlines()[1:]]
    assert sorted(roles) == ["Follower", "Follower", "Leader"]
