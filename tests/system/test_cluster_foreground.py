"""`bowstring cluster start`: three nodes in the foreground, for development."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.cluster import layout
from tests.support.readable import readable
from tests.support.waiting import HANG_S, wait_until

TIMEOUT_MS = int(HANG_S * 1000)


class Started:
    """The command in a process of its own; what it says is read as it comes."""

    def __init__(self, directory, port, *options):
        self.text = ""
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "bowstring", "cluster", "start", "--data", str(directory)),
                *("--port", str(port), *options),
            ],
            stderr=subprocess.PIPE,
            env=os.environ | {"NO_COLOR": "1"},
        )

    def wait_for(self, words):
        while words not in self.text:
            assert readable(self.process.stderr, HANG_S), self.text
            said = os.read(self.process.stderr.fileno(), 1 << 16).decode()
            assert said, f"no {words!r}: {self.text}"
            self.text += said
        return self.text

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(HANG_S)
        self.process.stderr.close()
        return status


@pytest.fixture
def start():
    """Starts the command; what is left of it ends with the test."""
    made = []

    def started(directory, port, *options):
        made.append(Started(directory, port, *options))
        return made[-1]

    yield started
    for each in made:
        each.stop(signal.SIGKILL)


def port_for_three():
    """A port with free ones after it and 100 above."""

    def found():
        (first,) = layout.free_ports(1)
        wanted = [first + more for more in (0, 1, 2, 100, 101, 102)]
        with ExitStack() as taken:
            for port in wanted:
                try:
                    taken.enter_context(socket.create_server((layout.HOST, port)))
                except OSError:
                    return None
        return first

    return wait_until(found)


def pids(directory):
    """The processes that run nodes of a directory."""
    found = {}
    for id in (1, 2, 3):
        config = os.fsencode(directory / f"node-{id}" / "server.properties")
        for folder in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{folder}/cmdline", "rb") as file:
                    if config in file.read():
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
