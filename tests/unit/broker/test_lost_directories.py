"""A node whose log directories have all failed says so and ends, as Kafka's does."""

import errno
import os
import subprocess
import sys

import pytest

from bowstring import Broker
from bowstring._native.log.partition_log import LogError
from tests.support.embedded import engine_of
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


def test_an_embedded_broker_is_not_ready(tmp_path):
    """Its process belongs to others: it goes on, and answers with errors."""
    broker = Broker(data_dir=str(tmp_path)).start()
    engine = engine_of(broker)
    assert engine.why_not_ready() is None
    engine.directory.health.fail(errno.EIO, "appending to the log", "t-0")
    wait_until(engine.lost.is_set)
    assert "has failed" in str(engine.why_not_ready())
    with pytest.raises(LogError):
        broker.stop()
