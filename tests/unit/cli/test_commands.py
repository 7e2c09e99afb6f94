"""Commands as a shell sees them: output, exit codes, one-line errors."""

import json
import re

import pytest

from bowstring import Consumer
from tests.support.waiting import HANG_S, wait_until


def in_time(call, words):
    """Runs a command with growing timeouts until it reports `words`: the machine may be too slow at first."""
    for seconds in (0.5, 5, 50):
        if words in (said := call(seconds)).err:
            break
    assert words in said.err, said.err
    return said


def test_topics_from_birth_to_death(cli, topic):
    made = cli("topics", "create", topic, "-p", 3, "-c", "retention.ms=86400000")
    assert (made.code, made.out) == (0, "") and f"created topic {topic}" in made.err
    again = cli("topics", "create", topic)
    assert again.code == 1 and again.err.count("\n") == 1 and "TOPIC_ALREADY_EXISTS" in again.err
    assert cli("topics", "create", topic, "--if-not-exists", "--json").json == [
        {"topic": topic, "created": False}
    ]
    assert cli("topics", "alter", topic, "-p", 4, "-c", "max.message.bytes=5000").code == 0
    described = cli("topics", "describe", topic, "--json").json[0]
    assert len(described["partitions"]) == 4
    assert described["configs"] == {"max.message.bytes": "5000", "retention.ms": "86400000"}
    text = cli("topics", "describe", topic).out
    assert topic in text.splitlines()[0] and "retention.ms=86400000" in text and "leader" in text
    assert topic in [row["topic"] for row in cli("topics", "list", "--json").json]
    assert topic in cli("topics", "list").out
    assert cli("topics", "delete", topic, "--json").json == [{"topic": topic, "deleted": True}]
    gone = cli("topics", "delete", topic)
    assert gone.code == 1 and "UNKNOWN_TOPIC_OR_PARTITION" in gone.err
    assert cli("topics", "delete", topic, "--if-exists").code == 0


def test_produce_and_consume_text(cli, topic):
    cli("topics", "create", topic, "-p", 1)
    lines = b"a:one\nb:two\nNIL:three\na:NIL\n\xff:\xfe\n"
    sent = cli("produce", topic, "-K", ":", "-H", "source=test", "--null-marker", "NIL", stdin=lines)
    assert sent.code == 0 and "5 records sent" in sent.err and "offset 4" in sent.err
    assert cli("consume", topic).lines == ["one", "two", "three", "null", "\\xfe"]
    shown = cli("consume", topic, "-v", "-n", 1).lines[0].split("\t")
    assert shown[1:] == ["0:0", "source=test", "a", "one"] and re.match(r"\d{4}-\d\d-\d\dT.*Z", shown[0])
    assert cli("consume", topic, "--from", 2, "-k").lines == ["null\tthree", "a\tnull", "\\xff\t\\xfe"]
    assert cli("consume", topic, "--from", -1).lines == ["\\xfe"]
    assert cli("consume", topic, "--from", "end").lines == []
    assert cli("consume", topic, "--from", "2001-01-01T00:00").lines[0] == "one"
    assert cli("consume", topic, "--from", "@99999999999").lines == []


def test_json_goes_round(cli, topic, tmp_path):
    cli("topics", "create", topic, "-p", 1, "-c", "retention.ms=-1")  # the records are old
    records = [
        {"key": "k", "value": "v", "headers": {"a": "1"}, "timestamp": 5},
        {"key": None, "value": {"base64": "/w=="}, "headers": [{"key": "b", "value": None}]},
        {"value": None},
    ]
    file = tmp_path / "records.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert cli("produce", topic, "--format", "json", "--file", file, "--json").json["records"] == 3
    first = cli("consume", topic, "--json").out
    got = [json.loads(line) for line in first.splitlines()]
    assert [r["value"] for r in got] == ["v", {"base64": "/w=="}, None]
    assert got[0]["timestamp"] == 5 and got[0]["headers"] == [{"key": "a", "value": "1"}]
    cli("produce", topic, "--format", "json", stdin=first.encode())
    again = [json.loads(line) for line in cli("consume", topic, "--json", "--from", 3).lines]
    strip = [{k: v for k, v in r.items() if k != "offset"} for r in got]
    assert [{k: v for k, v in r.items() if k != "offset"} for r in again] == strip


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(cli, topic, compression):
    cli("topics", "create", topic, "-p", 1)
    assert cli("produce", topic, "-z", compression, stdin=b"x\n" * 100).code == 0
    assert cli("consume", topic).lines == ["x"] * 100


def move_and_watch(cli, topic, group, tmp_path):
    """The other ways of reset-offsets, and `groups top`."""
    one = ("groups", "reset-offsets", group, "-t", f"{topic}:0")
    assert cli(*one, "--to-current", "--json").json[0]["new_offset"] == 3
    assert cli(*one, "--by-duration", "P1D", "--json").json[0]["new_offset"] == 0
    assert cli(*one, "--by-duration", "PT0S", "--json").json[0]["new_offset"] == 3
    assert cli(*one, "--by-duration", "soon").code == 2
    assert cli(*one, "--to-latest", "--to-earliest").code == 2
    file = tmp_path / "offsets.csv"
    file.write_text(cli(*one, "--to-offset", 1, "--export").out)
    assert file.read_text() == f"{topic},0,1\n"
    moved = cli("groups", "reset-offsets", group, "--from-file", file, "--execute", "--json").json
    assert moved == [{"topic": topic, "partition": 0, "old_offset": 3, "new_offset": 1, "executed": True}]
    file.write_text(f"{group},{topic},0,2\nother,{topic},1,2\n")
    moved = cli("groups", "reset-offsets", group, "--from-file", file, "--json").json
    assert [row["new_offset"] for row in moved] == [2]
    file.write_text("nonsense\n")
    assert "topic,partition,offset" in cli("groups", "reset-offsets", group, "--from-file", file).err
    (row,) = cli("groups", "top", group, "--once", "--json").json
    rest = sum(
        each["lag"] for each in cli("groups", "lag", group, "--json").json if each["committed"] is None
    )
    assert (row["group"], row["lag"]) == (group, 2 + rest) and 0 < row["seconds"] < 3600
    assert group in cli("groups", "top", "--once").out
    kind = cli("groups", "describe", group, "--json").json["type"]
    assert group in cli("groups", "list", "--type", kind).out
    assert group not in cli("groups", "list", "--type", "share").out


def test_offsets_of_a_group_at_work_stay(cli, topic, bootstrap):
    group = f"busy-{topic}"
    cli("topics", "create", topic, "-p", 1)
    cli("produce", topic, stdin=b"1\n2\n")
    with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) != [])
        consumer.commit()
        shown = cli("groups", "reset-offsets", group, "--to-earliest")
        assert (shown.code, "1 members" in shown.err) == (0, True)
        refused = cli("groups", "reset-offsets", group, "--to-earliest", "--execute")
        assert refused.code == 1 and "Stop the group's consumers first" in refused.err
        (member,) = cli("groups", "describe", group, "--json").json["members"]
        assert member["assignment"] == [{"topic": topic, "partition": 0}]


def test_groups(cli, topic, tmp_path):
    group = f"g-{topic}"
    cli("topics", "create", topic, "-p", 2)
    cli("produce", topic, "-p", 0, stdin=b"1\n2\n3\n")
    assert sorted(cli("consume", topic, "--group", group).lines) == ["1", "2", "3"]
    assert group in [row["group_id"] for row in cli("groups", "list", "--json").json]
    assert group in cli("groups", "list", "--state", "empty").out
    assert cli("groups", "describe", group, "--json").json["state"] == "Empty"
    assert "no members" in cli("groups", "describe", group).out
    lag = {row["partition"]: row for row in cli("groups", "lag", group, "--json").json}
    assert lag[0]["committed"] == 3 and lag[0]["lag"] == 0
    shown = cli("groups", "reset-offsets", group, "--shift-by", -2)
    assert "--execute" in shown.out and cli("groups", "lag", group, "--json").json[0]["lag"] == 0
    for way, expected in ((("--to-earliest",), 0), (("--to-latest",), 3), (("--to-offset", 1), 1), (("--shift-by", 1), 2), (("--to-datetime", "2001-01-01"), 0)):  # fmt: skip
        done = cli("groups", "reset-offsets", group, "-t", f"{topic}:0", *way, "--execute", "--json")
        assert (done.code, done.json[0]["new_offset"]) == (0, expected), way
    assert cli("consume", topic, "--group", group).lines == ["1", "2", "3"]
    assert cli("groups", "reset-offsets", group).code == 2
    move_and_watch(cli, topic, group, tmp_path)
    assert cli("groups", "delete", group).code == 0
    gone = cli("groups", "describe", group)
    assert gone.code == 1 and "GROUP_ID_NOT_FOUND" in gone.err


def test_configs(cli, topic):
    cli("topics", "create", topic)
    assert cli("configs", "describe", "--topic", topic).code == 0
    assert cli("configs", "alter", "--topic", topic, "--set", "retention.ms=77", "--append", "cleanup.policy=compact").code == 0  # fmt: skip
    found = {c["name"]: c["value"] for c in cli("configs", "describe", "--topic", topic, "--json").json}
    assert found["retention.ms"] == "77" and "compact" in found["cleanup.policy"]
    assert "retention.ms" in cli("configs", "describe", "--topic", topic).out
    assert len(cli("configs", "describe", "--topic", topic, "--all", "--json").json) > 20
    wrong = cli("configs", "alter", "--topic", topic, "--set", "retention.mss=1")
    assert wrong.code == 1 and "retention.mss" in wrong.err
    assert cli("configs", "describe").code == 2
    assert cli("configs", "describe", "--topic", "a", "--broker", "1").code == 2


def test_cluster_status(cli, topic):
    cli("topics", "create", topic, "-p", 3)
    found = cli("cluster", "status", "--json").json
    (node,) = found["nodes"]
    assert (node["roles"], node["fenced"], node["quorum"]) == (["broker", "controller"], False, "leader")
    assert found["quorum"]["leader_id"] == node["id"] and node["metadata_lag"] == 0
    assert node["leaders"] == node["in_sync"] == node["replicas"] == found["partitions"] >= 3
    assert found["troubled"] == [] and found["offline"] == 0
    shown = cli("cluster", "status").out
    assert found["cluster_id"] in shown.splitlines()[0] and "all replicas in sync" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["topics", "frob"], 2, "frob"),
        (["consume"], 2, "TOPIC"),
        (["consume", "t", "--group", "g", "-p", "0"], 2, "--partition"),
        (["produce", "t", "-H", "novalue"], 2, "name=value"),
        (["produce", "t", "-z", "brotli"], 2, "brotli"),
        (["topics", "create", "x", "-c", "y"], 2, "name=value"),
        (["topics", "alter", "x"], 2, "nothing to change"),
        (["dump-log"], 2, "at least one file"),
        (["dump-log", "/no/such/file.log"], 2, "/no/such/file.log"),
        (["groups", "list", "--type", "shared"], 2, "share"),
        (["groups", "list", "--state", "idle"], 2, "Stable"),
        (["topics", "list", "-b", "127.0.0.1:1", "--timeout", "0.3"], 1, "127.0.0.1:1"),
        (["topics", "list", "-b", "nonsense:x"], 2, "host:port"),
        (["cluster", "status", "-b", "127.0.0.1:1", "--timeout", "0.3"], 1, "127.0.0.1:1"),
    ],
)
def test_errors_are_one_line(offline, arguments, code, words):
    result = offline(*arguments)
    assert result.code == code
    assert result.err.startswith("bowstring: ") and result.err.count("\n") == 1 and words in result.err
    assert result.out == ""


def test_unknown_topic_is_not_made_by_looking(cli):
    result = in_time(lambda seconds: cli("consume", "never-made", "--timeout", seconds), "never-made")
    assert result.code == 1
    assert "never-made" not in cli("topics", "list").out


def test_help_names_every_command(offline):
    text = offline("--help").out
    for command in (
        "serve",
        "topics",
        "configs",
        "groups",
        "produce",
        "consume",
        "dump-log",
        "perf",
        "demo",
        "version",
    ):
        assert command in text
    assert "--data" in offline("serve", "--help").out
    assert offline("version", "--json").json["bowstring"]
    assert offline("--version").out == offline("version").out != ""


def test_a_reader_that_has_enough(cli, topic, bootstrap):
    import subprocess
    import sys

    cli("topics", "create", topic, "-p", 1)
    cli("produce", topic, stdin=b"line\n" * 50_000)
    done = subprocess.run(
        f"{sys.executable} -m bowstring consume {topic} -b {bootstrap} | head -2",
        shell=True, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.stdout == "line\nline\n" and "Traceback" not in done.stderr


def test_a_broker_that_is_down_is_one_line(cli, monkeypatch):
    """Log lines of the retrying client do not get in the way of scripts."""
    for command in (["topics", "list"], ["produce", "t"], ["consume", "t", "--follow"]):
        failed = in_time(
            lambda seconds, command=command: cli(
                *command, "-b", "127.0.0.1:1", "--timeout", seconds, stdin=b"x\n"
            ),
            "Connection refused",
        )
        assert failed.code == 1 and failed.err.count("\n") == 1
