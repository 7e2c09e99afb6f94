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


def test_what_takes_a_cluster_is_refused_in_one_line(cli, topic, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": []}')
    for command in (
        ("reassign", "execute", plan),
        ("reassign", "cancel", "--all"),
        ("leaders", "elect", "-a"),
    ):
        refused = cli(*command)
        assert refused.code == 1 and refused.err.count("\n") == 1, refused.err
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
