"""Commands for operators at a broker alone; tests/system/test_operate_cluster.py has clusters."""

import json

import pytest

from bowstring.cli.replica_moves import State, check_done
from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicPartition


def test_a_broker_and_its_quorum_are_described(cli, topic):
    cli("topics", "create", topic, "-p", 2)
    (row,) = cli("brokers", "describe", "--json").json
    assert row["fenced"] is False and row["leaders"] >= 2 and row["metadata_lag"] == 0
    assert sum(each["replicas"] for each in row["log_dirs"]) >= 2
    text = cli("brokers", "describe", row["id"]).out
    assert "active" in text and "online" in text
    unknown = cli("brokers", "describe", 77)
    assert unknown.code == 2 and "there is no broker 77" in unknown.err
    quorum = cli("quorum", "describe", "--json").json
    assert [(node["id"], node["role"]) for node in quorum["nodes"]] == [(row["id"], "leader")]
    assert quorum["nodes"][0]["address"] is None  # no other node reaches its controller
    assert "leader" in cli("quorum", "describe").out


def test_plans_say_when_there_is_nothing_to_move(cli, topic, tmp_path):
    cli("topics", "create", topic)
    plan = tmp_path / "plan.json"
    done = cli("reassign", "plan", topic, "-o", plan)
    assert done.code == 0 and "nothing to move" in done.err
    assert json.loads(plan.read_text()) == {"version": 1, "partitions": []}
    more = cli("reassign", "plan", topic, "-r", 3)
    assert more.code == 2 and f"{topic}-0 is to have 3 replicas, but only 1 brokers may have some" in more.err
    assert cli("reassign", "plan", topic, "--brokers", "1,x").code == 2
    assert "there is no broker 77" in cli("reassign", "plan", topic, "--brokers", "77").err


def test_a_broker_alone_is_a_cluster_in_which_nothing_moves(cli, topic, tmp_path):
    cli("topics", "create", topic)
    plan = tmp_path / "plan.json"
    replicas = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replicas]}))
    for command, says in (
        (("reassign", "execute", plan), ""),
        (("reassign", "verify", plan), "done"),
        (("reassign", "cancel", "--all"), "cancelled 0 reassignments"),
        (("leaders", "elect", "-a"), "no partition needed an election"),
        (("leaders", "elect", "-t", topic), "ELECTION_NOT_NEEDED"),
    ):
        done = cli(*command)
        assert done.code == 0 and says in done.out + done.err, (command, done.out, done.err)


def test_what_one_broker_cannot_do_is_refused_in_one_line(cli, topic, tmp_path):
    cli("topics", "create", topic)
    plan = tmp_path / "plan.json"
    replicas = {"topic": topic, "partition": 0, "replicas": [1, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replicas]}))
    for command, code, says in (
        (("reassign", "execute", plan), 2, "2"),
        (("quorum", "remove", 1), 1, "the only voter"),
        (("quorum", "unregister", 1), 1, "cannot unregister itself"),
    ):
        refused = cli(*command)
        assert refused.code == code and refused.err.count("\n") == 1 and says in refused.err, refused.err
    for command in (("leaders", "elect"), ("reassign", "cancel"), ("quorum", "add", 4)):
        assert cli(*command).code == 2


def test_a_plan_that_is_not_done_is_told():
    check_done([State(TopicPartition("t", 0), "done", (1,), (1,))])
    left = [
        State(TopicPartition("t", 0), "moving", (1, 2), (2,)),
        State(TopicPartition("t", 1), "other", (1,), (2,)),
    ]
    with pytest.raises(ClientError, match=r"2 of 2 .* replicas: 1 are moving; .* for 1, such as t-1"):
        check_done(left)


def test_log_levels_of_a_broker(cli):
    (node,) = cli("brokers", "describe", "--json").json
    levels = cli("configs", "describe", "--loggers", node["id"], "--json").json
    assert {"root", "bowstring.security", "bowstring.storage"} <= {each["name"] for each in levels}
    change = ("configs", "alter", "--loggers", node["id"])
    try:
        assert cli(*change, "--set", "bowstring.security=ERROR").code == 0
        assert "ERROR" in cli("configs", "describe", "--loggers", node["id"]).out
        refused = cli(*change, "--set", "bowstring.secrets=ERROR")
        assert refused.code and "bowstring.secrets does not exist" in refused.err
    finally:
        assert cli(*change, "--delete", "bowstring.security").code == 0
