"""A streaming job from topic to topic whose driver is killed (-9): started again, nothing is missing."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bowstring
from tests.spark.topics import read_all

JOB = Path(__file__).resolve().parent / "stream_job.py"
ROWS = 40_000
# Of one wait. Two JVMs begin, and batches have Python workers: a minute on two idle cores, several beside other work.
TIMEOUT_S = 300


def end_offset(servers, topic):
    with bowstring.Admin(servers) as admin:
        ends = admin.end_offsets([bowstring.TopicPartition(topic, each) for each in range(2)])
    return sum(ends.values())


class Job:
    """The driver's process group: Python, and the JVM it started."""

    def __init__(self, *arguments):
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        self.process = subprocess.Popen(
            [sys.executable, str(JOB), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdout.readline() == "begun\n"

    def alive(self):
        return self.process.poll() is None

    def wait_until_written(self, servers, topic, rows):
        deadline = time.monotonic() + TIMEOUT_S
        while (written := end_offset(servers, topic)) < rows:
            assert self.alive()
            assert time.monotonic() < deadline, f"{written} of {rows} rows were written"
            time.sleep(0.01)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


# Batches of the Python engine take longer: ten of them are enough to be killed in the middle.
@pytest.mark.timeout(3 * TIMEOUT_S + 300)
@pytest.mark.parametrize(("engine", "rows_per_batch"), [("columnar", 2_000), ("python", 4_000)])
def test_nothing_is_missing_after_the_driver_was_killed(broker, make_topic, tmp_path, engine, rows_per_batch):
    servers = broker.bootstrap_servers
    source, target = make_topic(servers, 2), make_topic(servers, 2)
    with bowstring.Producer(servers) as producer:
        for number in range(ROWS):
            producer.send(source, b"value %d" % number, key=b"%d" % number)
    arguments = (servers, source, target, str(tmp_path / "checkpoint"), engine, str(rows_per_batch))
    job = Job(*arguments)
    try:
        # Somewhere in the middle: at any moment of a batch, between its offsets, its records and its commit.
        stop_at = random.Random().randrange(1, ROWS * 3 // 4)
        job.wait_until_written(servers, target, stop_at)
        job.kill()
        assert end_offset(servers, target) < ROWS, "the job was done before it was killed"
        job = Job(*arguments)
        expected = {b"%d" % number: b"value %d" % number for number in range(ROWS)}
        job.wait_until_written(servers, target, ROWS)
        deadline = time.monotonic() + TIMEOUT_S
        while (found := {record.key: record.value for record in read_all(servers, target)}) != expected:
            assert time.monotonic() < deadline, f"{len(expected) - len(found)} records are missing"
            time.sleep(0.2)
    finally:
        job.kill()
