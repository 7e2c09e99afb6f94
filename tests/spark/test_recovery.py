"""A streaming job from topic to topic whose driver is killed (-9): nothing is missing, and nothing doubled."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bowstring
from tests.spark.topics import read_all
from tests.support.waiting import wait_until

JOB = Path(__file__).resolve().parent / "stream_job.py"
ROWS_PER_BATCH = 4_000
# Of one wait. Two JVMs begin, and batches have Python workers: a minute on two idle cores, several beside other work.
TIMEOUT_S = 300


def end_offset(servers, topic):
    with bowstring.Admin(servers) as admin:
        ends = admin.end_offsets([bowstring.TopicPartition(topic, each) for each in range(2)])
    return sum(ends.values())


def committed(servers, topic):
    table = bowstring.read(topic, bootstrap_servers=servers, isolation_level="read_committed")
    return sorted(table["key"].to_pylist())


def fill(servers, topic, numbers):
    with bowstring.Producer(servers) as producer:
        for number in numbers:
            producer.send(topic, b"value %d" % number, key=b"%d" % number)


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
        def is_written():
            assert self.alive()
            return end_offset(servers, topic) >= rows

        wait_until(
            is_written,
            lambda: f"{end_offset(servers, topic)} of {rows} rows were written",
            hang_s=TIMEOUT_S,
        )

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


# Enough batches to be killed in the middle; those of the Python engine take longer.
@pytest.mark.timeout(3 * TIMEOUT_S + 300)
@pytest.mark.parametrize(("engine", "batches"), [("columnar", 8), ("python", 4)])
def test_nothing_is_missing_after_the_driver_was_killed(broker, make_topic, tmp_path, engine, batches):
    servers, rows = broker.bootstrap_servers, batches * ROWS_PER_BATCH
    source, target = make_topic(servers, 2), make_topic(servers, 2)
    before = rows * 3 // 4
    fill(servers, source, range(before))
    how = (engine, str(ROWS_PER_BATCH))
    arguments = (servers, source, target, str(tmp_path / "checkpoint"), *how)
    job = Job(*arguments)
    try:
        # Somewhere in the middle: at any moment of a batch, between its offsets, its records and its commit.
        job.wait_until_written(servers, target, random.Random().randrange(1, before))
        job.kill()
        fill(servers, source, range(before, rows))  # more to do for the next one, however late it was killed
        job = Job(*arguments)
        expected = {b"%d" % number: b"value %d" % number for number in range(rows)}
        job.wait_until_written(servers, target, rows)
        wait_until(
            lambda: {record.key: record.value for record in read_all(servers, target)} == expected,
            lambda: (
                f"{len(expected.keys() - {each.key for each in read_all(servers, target)})} records are missing"
            ),
            every_s=0.2,
        )
        keys = sorted(expected)
        wait_until(lambda: committed(servers, target) == keys, "doubled or uncommitted", every_s=0.2)
    finally:
        job.kill()
