"""A node whose log directories have all failed logs that and ends, as Kafka's does."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from bowstring import Broker
from tests.support.embedded import engine_of
from tests.support.quorum_nodes import format_directory
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

SERVED = """
import asyncio, errno, sys
from bowstring import serve
from bowstring.engine.broker.broker import Broker

start = Broker.start

async def start_and_fail(broker):
    await start(broker)
    asyncio.get_running_loop().call_later(
        0.2, broker.directory.health.fail, errno.ENOSPC, "appending to the log", "t-0"
    )

Broker.start = start_and_fail
sys.exit(serve.main(["--data", sys.argv[1], "--port", "0"]))
"""


def test_a_process_ends_with_its_last_directory(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", SERVED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert "the node ends, because it cannot go on" in ran.stderr
    assert str(tmp_path) in ran.stderr and "free space" in ran.stderr
    assert not os.path.exists(tmp_path / ".kafka_cleanshutdown")


JOINS = """
import asyncio, errno, sys
from bowstring import serve
from bowstring.engine.broker.lifecycle import BrokerLifecycle
from bowstring.engine.quorum.service import QuorumService

made = []
start = QuorumService.start

def start_and_note(quorum, endpoints):
    made.append(quorum)
    start(quorum, endpoints)

async def wait_for_ever(lifecycle):
    made[0]._event(fail)
    await asyncio.Event().wait()

def fail():
    raise OSError(errno.ENOSPC, "No space left on device")

QuorumService.start, BrokerLifecycle.register = start_and_note, wait_for_ever
sys.exit(serve.main(["--data", sys.argv[1], *(f"--set={each}" for each in sys.argv[2:])]))
"""


def test_a_process_whose_metadata_log_fails_while_it_joins_ends(tmp_path):
    directory, port, controller_port = tmp_path / "data", steady_port(), steady_port()
    format_directory(directory, 1)
    settings = [
        "node.id=1",
        "process.roles=broker,controller",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
    ]
    ran = subprocess.run(
        [sys.executable, "-c", JOINS, str(directory), *settings],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert "free space in its directory" in ran.stderr
    assert "the node ends, because it cannot go on" in ran.stderr
    assert not os.path.exists(directory / ".kafka_cleanshutdown")


def test_an_embedded_broker_ends_by_itself(tmp_path):
    """Its program goes on, and learns why from stop(), once; then it may start the broker again."""
    broker = Broker(data_dir=str(tmp_path)).start()
    engine, port = engine_of(broker), broker.port
    assert engine.why_not_ready() is None
    engine.directory.health.fail(errno.EIO, "appending to the log", "t-0")
    wait_until(lambda: refuses(port))
    assert engine.why_not_ready() is not None
    wait_until(lambda: has_ended(broker))  # a moment after its listeners
    with pytest.raises(RuntimeError, match=r"call stop\(\), which raises why"):
        broker.start()
    with pytest.raises(OSError, match="has failed: appending to the log in t-0"):
        broker.stop()
    broker.stop()
    with pytest.raises(RuntimeError, match="is not running"):
        broker.port  # noqa: B018
    with broker:
        assert engine_of(broker).why_not_ready() is None


def has_ended(broker):
    try:
        broker.bootstrap_servers  # noqa: B018
    except RuntimeError as error:
        return "call stop(), which raises why" in str(error)
    return False


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_block_around_a_broker_that_ended_raises_why(tmp_path):
    with pytest.raises(OSError, match="has failed: appending to the log in t-0"), Broker() as broker:
        engine_of(broker).directory.health.fail(errno.EIO, "appending to the log", "t-0")
        port, directory = broker.port, broker.data_dir
        wait_until(lambda: refuses(port))
    assert not directory.exists()
