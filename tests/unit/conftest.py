"""Brokers for unit tests, one for the session and ones of a test's own, and commands of the command line.

The broker for the session is an embedded one, or a running one, such as Apache Kafka.

BOWSTRING_TEST_BOOTSTRAP  host:port of the running one.
"""

import os
import subprocess
import sys
import uuid

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from tests.support.commands import Result
from tests.support.served_broker import Served
from tests.support.waiting import HANG_S, wait_until


@pytest.fixture(autouse=True)
def reserve_of_descriptors():
    """No test finds the reserve of file descriptors as another one has left it: a process has one, and an injected
    EMFILE uses it up as a real one does. Where a node of this process holds it, files of partitions are refused then.
    """
    yield
    descriptors = sys.modules.get("bowstring._native.disk.descriptors")
    if descriptors is not None and descriptors.stats()["short"]:
        assert descriptors.refill(), (
            "the test has left no descriptors: does it leave files or a limit behind?"
        )


@pytest.fixture(scope="session")
def bootstrap(request):
    running = os.environ.get("BOWSTRING_TEST_BOOTSTRAP")
    return running or request.getfixturevalue("bowstring_broker").bootstrap_servers


@pytest.fixture(scope="session")
def admin(bootstrap):
    with Admin(bootstrap, timeout_ms=int(HANG_S * 1000)) as made:
        yield made


@pytest.fixture
def new_topic(admin):
    """Makes topics that go after the test, and keep records of any age until then."""
    names = []

    def make(partitions=1, **configs):
        configs = {"retention_ms": -1, **configs}
        name = f"t-{uuid.uuid4().hex[:12]}"
        admin.create_topic(
            name, partitions, configs={k.replace("_", "."): str(v) for k, v in configs.items()}
        )
        names.append(name)
        wait_until(lambda: name in admin.topics())
        return name

    yield make
    for name in names:
        if name in admin.topics():
            admin.delete_topics([name])


@pytest.fixture
def new_group():
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def consumer_for(bootstrap):
    """Makes consumers of all partitions of a topic, from their begin, that are closed after the test."""
    made = []

    def make(topic=None, **options):
        consumer = Consumer(bootstrap, **{"auto_offset_reset": "earliest", **options})
        made.append(consumer)
        if topic is not None:
            consumer.assign(consumer.partitions_for(topic))
        return consumer

    yield make
    for consumer in made:
        consumer.close()


@pytest.fixture
def serve(tmp_path):
    """Starts a broker with configs (underscores for dots); stopped after the test."""
    running = []

    def start(**config):
        served = Served(tmp_path / "data", **config)
        running.append(served)
        return served

    yield start
    for served in running:
        served.stop()


@pytest.fixture
def served(serve):
    return serve()


@pytest.fixture
def cli(bootstrap):
    """Runs a command in a process of its own, as a shell would."""
    environment = os.environ | {"BOWSTRING_BOOTSTRAP_SERVERS": bootstrap, "COLUMNS": "120", "NO_COLOR": "1"}

    def call(*arguments, stdin=b"", timeout=HANG_S):
        done = subprocess.run(
            [sys.executable, "-m", "bowstring", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            env=environment,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def offline(capsys):
    """Runs a command that needs no broker inside the test."""

    from bowstring.cli import run

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def topic():
    """A name that no other topic has."""
    return f"t-{uuid.uuid4().hex[:12]}"
