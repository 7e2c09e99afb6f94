"""`consume --group` commits what it printed; `consume --json | produce --format json` copies topics."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bowstring import Broker
from bowstring.cli.consume import COMMIT_EVERY_S
from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

PATIENCE_S = HANG_S


@pytest.fixture
def admin(bootstrap):
    with Admin(bootstrap) as made:
        yield made


@pytest.fixture
def filled(bootstrap, admin, topic):
    """Makes the topic, with this many records in each partition."""

    def fill(count, partitions=1, size=0):
        admin.create_topic(topic, partitions)
        with Producer(bootstrap) as producer:
            for number in range(count):
                for partition in range(partitions):
                    producer.send(topic, b"%d" % number + b"." * size, partition=partition)
        return topic

    return fill


@pytest.fixture
def start(bootstrap):
    """Starts `bowstring consume` and lets it be."""
    started = []

    def call(*arguments):
        command = [sys.executable, "-m", "bowstring", "consume", "-b", bootstrap, *map(str, arguments)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"NO_COLOR": "1"}
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.wait()


def committed(admin, group, topic):
    """Offset by partition."""
    return {p.partition: at.offset for p, at in admin.committed_offsets(group).items() if p.topic == topic}


def await_committed(admin, group, topic, expected):
    wait_until(
        lambda: committed(admin, group, topic) == expected, lambda: str(committed(admin, group, topic))
    )


def test_each_call_prints_the_next_ones(cli, admin, filled):
    topic = filled(1000)
    for call in range(3):
        assert cli("consume", topic, "--group", topic, "-n", 1).lines == [str(call)]
        assert committed(admin, topic, topic) == {0: call + 1}
    assert cli("consume", topic, "--group", topic, "-n", 5).lines == ["3", "4", "5", "6", "7"]
    assert cli("consume", topic, "--group", topic).lines == [str(i) for i in range(8, 1000)]
    assert committed(admin, topic, topic) == {0: 1000}


def test_partitions_of_which_nothing_was_printed(cli, admin, filled):
    topic = filled(10, partitions=3)
    line = cli("consume", topic, "--group", topic, "-n", 1, "--json").json
    assert committed(admin, topic, topic) == {line["partition"]: 1}


def test_nothing_printed_is_nothing_committed(cli, admin, filled):
    topic = filled(10)
    assert cli("consume", topic, "--group", topic, "--from", "end").lines == []
    assert committed(admin, topic, topic) == {}


def test_where_it_was_told_to_begin(cli, admin, filled):
    topic = filled(10)
    assert cli("consume", topic, "--group", topic, "--from", 4, "-n", 2).lines == ["4", "5"]
    assert cli("consume", topic, "--group", topic, "-n", 1).lines == ["6"]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c(admin, filled, start, ending):
    """Lines come as they arrive, and are committed at the end; SIGTERM leaves them to the next reader."""
    topic, started = filled(3), time.monotonic()
    process = start(topic, "--group", topic, "--follow", "--from", "beginning")
    assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
    process.send_signal(ending)
    rest, errors = process.communicate(timeout=PATIENCE_S)
    if ending == signal.SIGINT:
        assert (process.returncode, rest, errors) == (0, b"", b"")
        assert committed(admin, topic, topic) == {0: 3}
    else:
        was_due = time.monotonic() - started > COMMIT_EVERY_S
        assert committed(admin, topic, topic) in ({}, {0: 3} if was_due else {})


def test_a_pipe_that_is_closed(admin, filled, start):
    """Bytes that the pipe took are committed, at most a flush less; refused ones never are."""
    count, size = 20_000, 200
    topic = filled(count, size=size)
    process = start(topic, "--group", topic)
    lines = [process.stdout.readline() for _ in range(5)]
    assert [line.rstrip(b".\n") for line in lines] == [b"%d" % i for i in range(5)]
    taken = len(b"".join(lines)) + len(process.stdout.peek())
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 1
    assert process.stderr.read() == b""
    offset = committed(admin, topic, topic).get(0, 0)
    pipe_bytes = 65_536
    assert offset * size <= taken + 2 * pipe_bytes, "no more than fits into what was read and the pipe"
    assert offset < count


def test_an_error_in_the_middle(bootstrap, admin, filled, monkeypatch, capsys):
    """Records printed before it are committed."""
    from bowstring.cli import run
    from bowstring.clients.errors import CorruptBatchError

    topic = filled(30)
    poll = Consumer.poll
    polls = []

    def fails(self, *arguments, **options):
        if sum(polls) >= 10:
            raise CorruptBatchError("a bad one")
        records = poll(self, *arguments, **{**options, "max_records": 10})
        polls.append(len(records))
        return records

    monkeypatch.setattr(Consumer, "poll", fails)
    assert run(["consume", topic, "-b", bootstrap, "--group", topic]) == 1
    captured = capsys.readouterr()
    assert captured.out.split() == [str(i) for i in range(10)] and "a bad one" in captured.err
    assert committed(admin, topic, topic) == {0: 10}


def test_progress_is_committed_while_it_goes_on(bootstrap, admin, filled, start):
    topic = filled(3)
    start(topic, "--group", topic, "--follow", "--from", "beginning")
    await_committed(admin, topic, topic, {0: 3})


def test_partitions_that_go_to_another_member(bootstrap, admin, filled, start):
    """They are committed before, and left alone after that."""
    topic = filled(5, partitions=2)
    process = start(topic, "--group", topic, "--follow", "--from", "beginning")
    for _ in range(10):
        process.stdout.readline()
    with Consumer(bootstrap, group_id=topic, auto_offset_reset="none") as other:
        other.subscribe([topic])
        while not (mine := other.assignment()):
            assert other.poll(0.1) == [], "nothing that was printed comes again"
        (moved,) = mine
        assert other.position(moved) == 5
        other.commit({moved: 2})
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert committed(admin, topic, topic) == {moved.partition: 2, 1 - moved.partition: 5}
        other.close(autocommit=False)


def test_a_broker_that_goes_away_while_it_follows(start):
    """It waits as long as necessary, and reports for what."""
    with Broker() as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"x").result(PATIENCE_S)
        process = start("t", "--follow", "--from", "beginning", "-b", broker.bootstrap_servers)
        assert process.stdout.readline() == b"x\n"
    while b"Connection refused" not in (line := process.stderr.readline()):
        assert line.startswith((b"bowstring: lost the connection", b"bowstring: cannot reach")), line
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0


# ------------------------------------------------------------ copying

# Keeps records of any age.
OLD = {"retention.ms": "-1"}


@pytest.fixture
def copy_of(cli, admin, bootstrap, topic):
    """Three partitions with everything a record has, as `consume --json` prints them."""
    admin.create_topic(topic, 3, configs=OLD)
    with Producer(bootstrap) as producer:
        for number in range(12):
            producer.send(
                topic,
                b"v%d" % number,
                b"k%d" % number,
                partition=number % 3,
                timestamp=1000 + number,
                headers={"h": b"%d" % number},
            )
    return cli("consume", topic, "--json").out.encode()


def facts(lines):
    return sorted(
        (r["value"], r["key"], r["timestamp"], json.dumps(r["headers"])) for r in map(json.loads, lines)
    )


def test_a_copy_with_fewer_partitions(cli, admin, topic, copy_of):
    admin.create_topic(f"{topic}-copy", 1, configs=OLD)
    done = cli("produce", f"{topic}-copy", "--format", "json", stdin=copy_of)
    assert (done.code, "12 records" in done.err) == (0, True), done.err
    copied = cli("consume", f"{topic}-copy", "--json").lines
    assert facts(copied) == facts(copy_of.splitlines())


def test_a_copy_that_keeps_partitions(cli, admin, topic, copy_of):
    admin.create_topic(f"{topic}-copy", 4, configs=OLD)
    command = ("produce", f"{topic}-copy", "--format", "json", "--keep-partitions")
    assert cli(*command, stdin=copy_of).code == 0
    places = {r["value"]: r["partition"] for r in map(json.loads, copy_of.splitlines())}
    copied = [json.loads(line) for line in cli("consume", f"{topic}-copy", "--json").lines]
    assert {record["value"]: record["partition"] for record in copied} == places


def test_partitions_that_cannot_be_kept(cli, admin, topic, copy_of):
    admin.create_topic(f"{topic}-copy", 1, configs=OLD)
    failed = cli("produce", f"{topic}-copy", "--format", "json", "--keep-partitions", stdin=copy_of)
    assert failed.code == 2 and failed.err.count("\n") == 1
    assert "line " in failed.err and "partitions 0 to 0" in failed.err and "without --keep-p" in failed.err


@pytest.mark.parametrize("more", [["-p", "0", "--format", "json"], []])
def test_keep_partitions_needs_json_and_no_other_place(offline, more):
    result = offline("produce", "t", "--keep-partitions", *more)
    assert result.code == 2 and "--keep-partitions needs --format json" in result.err


def test_a_share_group_without_partitions_is_an_error(offline, monkeypatch):
    """A script must not take it for a topic without records."""
    nowhere = f"127.0.0.1:{steady_port()}"
    consume = ("share", "consume", "t", "-g", "workers", "--timeout", 0.2, "-b", nowhere)
    done = offline(*consume)
    assert done.code == 1 and nowhere in done.err
    monkeypatch.setattr(Admin, "describe_topic", lambda *_: None)
    done = offline(*consume)
    assert done.code == 1
    assert "has assigned no partition of 't' within 0.2 s" in done.err
