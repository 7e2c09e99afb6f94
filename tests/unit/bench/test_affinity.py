"""Broker and clients on processors of their own, and back."""

import os
import subprocess
import sys

import pytest

from bench.affinity import apart, can_be_apart

SLEEPER = """
import threading
thread = threading.Thread(target=threading.Event().wait, daemon=True)
thread.start()
print('ready', flush=True)
input()
"""


def sleeper():
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    return process


def places(process):
    return [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{process.pid}/task")]


@pytest.mark.skipif(not can_be_apart(), reason="needs two processors")
def test_all_threads_are_apart_until_the_block_ends():
    before = os.sched_getaffinity(0)
    with sleeper() as broker, sleeper() as client:
        with apart(broker.pid, [client.pid]):
            assert places(broker) == [{max(before)}] * 2
            assert places(client) == [before - {max(before)}] * 2
        assert places(broker) == places(client) == [before] * 2
        for process in (broker, client):
            process.communicate(b"\n")


@pytest.mark.skipif(not can_be_apart(), reason="needs two processors")
def test_a_process_that_has_ended_is_passed_over():
    with sleeper() as broker:
        broker.communicate(b"\n")
        with apart(broker.pid, []):
            pass
