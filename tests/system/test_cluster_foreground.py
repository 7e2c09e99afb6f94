"""`bowstring cluster start`: three nodes in the foreground, for development."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.cluster import layout, voters
from bowstring.engine.configs import ConfigError
from tests.support.foreground import Started, port_for_three
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)


@pytest.fixture
def start():
    """Starts the command; its remaining processes end with the test."""
    made = []

    def started(directory, port, *options):
        made.append(Started(directory, port, *options))
        return made[-1]

    yield started
    for each in made:
        each.stop(signal.SIGKILL)


def pids(directory):
    """The processes that run nodes of a directory, without those that watch for their starter's end."""
    found = {}
    for id in (1, 2, 3):
        config = os.fsencode(directory / f"node-{id}" / "server.properties")
        for folder in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{folder}/cmdline", "rb") as file, open(f"/proc/{folder}/comm") as name:
                    if config in file.read() and name.read() != "starter-watch\n":
                        found[id] = int(folder)
            except OSError:
                continue
    return found


def test_a_cluster_is_formatted_once_and_used_again(start, tmp_path):
    port = port_for_three()
    started = start(tmp_path / "c", port, "--brokers", "3", "--set", "num.partitions=2", "--durability", "os")
    servers = ",".join(f"127.0.0.1:{port + index}" for index in range(3))
    text = started.wait_for(f"bootstrap servers: {servers}")
    assert text.count("✓ formatted ") == 3
    assert (
        f"node 3 (broker,controller): clients at 127.0.0.1:{port + 2}, controllers at 127.0.0.1:{port + 102}"
        in text
    )
    with bowstring.Producer(servers, acks="all") as producer:
        producer.send("kept", b"x", partition=1).result(HANG_S)
    with Admin(servers, timeout_ms=TIMEOUT_MS) as admin:
        assert [len(each.replicas) for each in admin.describe_topic("kept").partitions.values()] == [3, 3]
    ended = pids(tmp_path / "c")[2]
    os.kill(ended, signal.SIGKILL)
    started.wait_for("node 2 has ended: SIGKILL ended it; the others go on")
    started.wait_for("Start it again with: bowstring serve --config")
    assert started.stop() == 0

    again = start(tmp_path / "c", port, "--set", "num.partitions=2", "--durability", "os")
    assert "✓ formatted" not in again.wait_for(f"bootstrap servers: {servers}")
    with bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("kept", 1)])
        assert wait_until(lambda: consumer.poll(1.0))[0].value == b"x"
    nodes = pids(tmp_path / "c")
    assert len(nodes) == 3
    os.kill(nodes[3], signal.SIGSTOP)
    again.stop(signal.SIGKILL)  # its nodes see that, also the stopped one
    wait_until(lambda: not pids(tmp_path / "c"), lambda: pids(tmp_path / "c"))


class Commands:
    """The command line for a running cluster; what its messages advise can be run."""

    def __init__(self, directory, servers):
        self._directory = directory
        self._environment = os.environ | {"BOWSTRING_BOOTSTRAP_SERVERS": servers, "NO_COLOR": "1"}

    def begin(self, *arguments):
        command = [sys.executable, "-m", "bowstring", *arguments, "--timeout", str(HANG_S)]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
            cwd=self._directory,
        )

    def run(self, *arguments):
        process = self.begin(*arguments)
        out, err = process.communicate(timeout=HANG_S)
        return process.returncode, out + err

    def done(self, *arguments):
        status, text = self.run(*arguments)
        assert status == 0, text
        return text

    def follow(self, message):
        """Runs the commands of a message."""
        advised = re.findall(r"bowstring ((?:quorum|reassign|features) .*?)(?:, then|$)", message.strip())
        assert advised, message
        for each in advised:
            if "features upgrade" in each:  # controllers say their directories some seconds after their start
                wait_until(lambda each=each: self.run(*shlex.split(each))[0] == 0)
            else:
                self.done(*shlex.split(each))

    def voters(self):
        rows = json.loads(self.done("quorum", "describe", "--json"))["nodes"]
        return {row["id"]: row["address"] for row in rows if row["role"] != "observer"}


def servers_of(port, count=3):
    return ",".join(f"127.0.0.1:{port + index}" for index in range(count))


def settings(*more):
    return ("--durability", "os", "--set", "offsets.topic.num.partitions=2", *more)


def decommissioned(commands, process):
    """Takes broker 3 out as the messages of the command advise."""
    status, refused = commands.run("brokers", "decommission", "3")
    assert status == 1 and "it there first: bowstring quorum remove 3" in refused
    commands.follow(refused)
    status, refused = commands.run("brokers", "decommission", "3")
    assert status == 1 and "replicas, and without broker 3 only 2 brokers run" in refused
    commands.follow(refused)
    running = commands.begin("brokers", "decommission", "3")
    try:
        assert any("stop it now" in line for line in running.stderr)
        os.kill(process, signal.SIGTERM)
        assert running.wait(HANG_S) == 0, running.stderr.read()
    finally:
        running.kill()
        running.communicate()


def test_a_node_of_the_default_cluster_is_decommissioned(start, tmp_path):
    directory, port = tmp_path / "c", port_for_three()
    started = start(directory, port, *settings())
    started.wait_for("bootstrap servers:")
    commands = Commands(tmp_path, servers_of(port))
    with bowstring.Producer(servers_of(port), acks="all") as producer:
        for topic in ("kept", "other"):
            producer.send(topic, b"x").result(HANG_S)
    with Admin(servers_of(port), timeout_ms=TIMEOUT_MS) as admin:
        admin.alter_offsets("readers", {("kept", 0): 1})
    decommissioned(commands, pids(directory)[3])
    started.wait_for("node 3 has ended")
    assert started.stop() == 0
    shutil.rmtree(directory / "node-3")

    moved = port_for_three()
    start(directory, moved, *settings()).wait_for("bootstrap servers:")
    assert Commands(tmp_path, servers_of(moved, 2)).voters() == {
        1: f"127.0.0.1:{port + 100}",
        2: f"127.0.0.1:{port + 101}",
    }
    with Admin(servers_of(moved, 2), timeout_ms=TIMEOUT_MS) as admin:
        assert [each.id for each in admin.describe_brokers()] == [1, 2]
        assert admin.committed_offsets("readers")["kept", 0].offset == 1
    with bowstring.Consumer(servers_of(moved, 2), auto_offset_reset="earliest") as consumer:
        consumer.assign([("kept", 0)])
        assert wait_until(lambda: consumer.poll(1.0))[0].value == b"x"
    with pytest.raises(ConfigError, match="whose controllers are in its metadata"):
        bowstring.Cluster(2, data_dir=directory).start()
    with pytest.raises(ConfigError, match="without numbers of nodes"):
        layout.check_roles(directory, layout.roles_of(2, 0))


def test_static_controllers_stay_until_they_are_in_the_metadata(start, tmp_path):
    directory, port = tmp_path / "c", port_for_three()
    static = ",".join(f"{id}@127.0.0.1:{port + 99 + id}" for id in (1, 2, 3))
    first = start(directory, port, *settings("--set", f"controller.quorum.voters={static}"))
    first.wait_for("bootstrap servers:")
    assert first.stop() == 0

    started = start(directory, port, *settings())
    started.wait_for("bootstrap servers:")
    commands = Commands(tmp_path, servers_of(port))
    for command in (("brokers", "decommission", "3"), ("quorum", "remove", "3")):
        status, refused = commands.run(*command)
        assert status == 1 and "cannot be removed: controllers are static" in refused
    commands.follow(refused)
    assert sorted(commands.voters()) == [1, 2]
    assert started.stop() == 0
    start(directory, port, *settings()).wait_for("bootstrap servers:")
    assert sorted(commands.voters()) == [1, 2]


def test_a_controller_that_lost_its_directory_is_added_again(start, tmp_path):
    directory, port = tmp_path / "c", port_for_three()
    started = start(directory, port, *settings())
    started.wait_for("bootstrap servers:")
    assert started.stop() == 0
    shutil.rmtree(directory / "node-2" / "data")

    started = start(directory, port, *settings())
    text = started.wait_for("bootstrap servers:")
    commands = Commands(tmp_path, servers_of(port))
    (advice,) = [line for line in text.splitlines() if "is no voter before" in line]
    commands.follow(advice)
    assert sorted(commands.voters()) == [1, 2, 3]


def test_formatting_that_was_interrupted_is_finished(tmp_path):
    """The directories that are formatted first name the others."""
    roles = layout.roles_of(3, 0)
    ports = layout.consecutive_ports(roles, 30_000, 30_100, {})
    nodes = [layout.node_of(tmp_path, id, roles[id], ports[id]) for id in roles]
    first, *_ = nodes
    cluster_id = layout.cluster_id_in(tmp_path)
    options = voters.format_options(first, nodes, cluster_id, first=True)
    made = voters.settings_without(layout.settings_of(first, nodes, {}, {}), nodes)
    assert layout.prepare(first, made, cluster_id, options)
    assert voters.are_in_log(tmp_path) and not voters.have_run(tmp_path)
    assert layout.cluster_id_in(tmp_path) == cluster_id
    for node in nodes:
        again = voters.format_options(node, nodes, cluster_id, first=True)
        assert again.initial_controllers == options.initial_controllers


def test_controllers_in_the_metadata_keep_their_ports():
    roles = {id: each for id, each in layout.roles_of(3, 0).items() if id != 2}
    ports = layout.consecutive_ports(roles, 9092, 9192, {1: 9292, 3: 9294})
    assert [list(each.values()) for each in ports.values()] == [[9092, 9292], [9094, 9294]]
    with pytest.raises(ConfigError, match="leaves 9294 free"):
        layout.consecutive_ports(roles, 9292, 9392, {1: 9290, 3: 9294})
    roles = layout.roles_of(2, 2)
    ports = layout.consecutive_ports(roles, 9092, 9192, {})
    assert [list(each.values()) for each in ports.values()] == [[9092], [9093], [9192], [9193]]


def test_a_node_that_cannot_start_shows_the_end_of_its_log(start, tmp_path):
    started = start(tmp_path / "c", port_for_three(), "--set", "log.cleaner.backoff.ms=never")
    assert started.process.wait(HANG_S) == 1
    assert "log.cleaner.backoff.ms" in started.wait_for("never")
    port = port_for_three()
    with socket.create_server((layout.HOST, port + 1)):
        started = start(tmp_path / "d", port)
        text = started.wait_for("node 2 did not start")
        assert started.process.wait(HANG_S) == 1
        assert re.search(rf"The end of \S+node-2/node.log:\n.*{port + 1}", text), text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--brokers", "0"], "a cluster of 0 brokers cannot hold records"),
        (["--port", "65530", "--brokers", "9"], "port 65530 leaves no room for 9 nodes"),
        (["--set", "nonsense"], "name=value"),
    ],
)
def test_wrong_options_are_told(tmp_path, options, words):
    command = [sys.executable, "-m", "bowstring", "cluster", "start", "--data", str(tmp_path / "c"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode in (1, 2) and words in done.stderr
    assert not (tmp_path / "c").exists()
