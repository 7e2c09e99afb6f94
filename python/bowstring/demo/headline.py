"""Runs the headline: three producers at once into one broker, with the settings of Jay Kreps's article of
2014.

Each producer is its own process, as each was its own machine in the article. They connect first and start
together. The rate counts all records between the start and the last acknowledgement.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicPartition
from bowstring.demo.bare_append import BareAppend
from bowstring.demo.headline_producer import Order
from bowstring.demo.threads import broker_cpu_s

PRODUCERS = 3
RECORD_BYTES = 100
PARTITIONS = 6
SETTINGS = {"acks": "1", "batch.size": "8196", "buffer.memory": "67108864"}
# Three producers, 3x asynchronous replication, three brokers' machines and three machines for the load.
RECORDS_PER_S_2014 = 2_024_032
TOPIC = "headline"
# Acknowledged from the page cache, as in the article.
TOPIC_CONFIGS = {"bowstring.durability": "os", "retention.ms": "-1"}
# A slow machine stops after this time, with fewer records.
SECONDS_MAX = 15.0
START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 120.0
# Size of a record in a batch of 8 KB, including its share of the batch header and of the indexes.
STORED_BYTES_PER_RECORD = 110

Progress = Callable[[int, int], None]


class ProducerError(ClientError):
    """A producer's process failed; the message has its output."""


class ProducerRun(NamedTuple):
    """Result of one producer; `seconds` from the start to its last acknowledgement."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def records_per_s(self) -> float:
        """Throughput."""
        return self.records / self.seconds if self.seconds else 0.0


class Headline(NamedTuple):
    """Result of all producers together.

    Attributes:
        runs: by producer.
        seconds: until the last of them was done.
        broker_cpu_s: CPU-seconds that the broker used meanwhile.
        stored: records in the topic at the end.
        bare: a loop that only appended to a file, just before and just after.
    """

    runs: tuple[ProducerRun, ...]
    seconds: float
    broker_cpu_s: float
    stored: int
    bare: BareAppend

    @property
    def records(self) -> int:
        """Acknowledged records."""
        return sum(run.records for run in self.runs)

    @property
    def size_bytes(self) -> int:
        """Total size of their values."""
        return self.records * RECORD_BYTES

    @property
    def records_per_s(self) -> float:
        """Throughput of all together."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def bare_records_per_s(self) -> float:
        """The bare loop's throughput, in records of their stored size."""
        return self.bare.bytes_per_s / STORED_BYTES_PER_RECORD

    @property
    def of_bare(self) -> float:
        """The producers' throughput as a share of the bare loop's."""
        return self.records_per_s / self.bare_records_per_s if self.bare_records_per_s else 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """Differences between acknowledged and stored records."""
        if self.stored == self.records:
            return ()
        return (
            f"{self.records:,} records were acknowledged to the producers, the topic has {self.stored:,}",
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the figures for JSON output."""
        return {
            "producers": [run._asdict() | {"records_per_s": run.records_per_s} for run in self.runs],
            "records": self.records,
            "seconds": self.seconds,
            "records_per_s": self.records_per_s,
            "records_per_s_2014": RECORDS_PER_S_2014,
            "broker_cpu_s": self.broker_cpu_s,
            "bare_append": self.bare.as_json(),
            "of_bare_append": self.of_bare,
        }


def records_that_fit(records: int, folder: Path) -> int:
    """Returns the requested number of records for each producer, or as many as fill half of the free disk
    space.
    """
    fit = shutil.disk_usage(folder).free // 2 // (PRODUCERS * STORED_BYTES_PER_RECORD)
    return max(1, min(records, fit))


def run(bootstrap: str, records: int, progress: Progress, folder: Path) -> Headline:
    """Creates the topic and fills it; calls `progress` with (producer, its acknowledged records).

    Args:
        folder: of the broker, for the bare loop's file.
        records: of each producer; fewer are sent if that takes longer than SECONDS_MAX.

    Raises:
        ProducerError: a producer did not start, failed, or did not end.
    """
    with BareAppend(folder) as bare, Admin(bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, configs=TOPIC_CONFIGS)
        with producers(bootstrap, TOPIC, records) as started:
            for each in started:
                each.await_ready()
            bare.run()
            cpu, began = broker_cpu_s(), time.monotonic()
            for each in started:
                each.begin()
            seconds = await_producers(started, began, progress)
            runs = tuple(each.result() for each in started)
            used = broker_cpu_s() - cpu
            bare.run()
        for number, run in enumerate(runs):
            progress(number, run.records)
        partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        begin, end = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
    return Headline(runs, seconds, used, sum(end.values()) - sum(begin.values()), bare)


def await_producers(producers: list[ProducerProcess], began: float, progress: Progress) -> float:
    """Waits until all have ended, END_SECONDS_MAX at most; returns the seconds from `began` until then."""
    while any(each.running for each in producers) and time.monotonic() < began + END_SECONDS_MAX:
        for number, each in enumerate(producers):
            each.ended.wait(0.1 / len(producers))
            progress(number, each.records)
    return max(each.ended_at for each in producers) - began


@contextmanager
def producers(bootstrap: str, topic: str, records: int) -> Iterator[list[ProducerProcess]]:
    """Starts the processes; ends them all when the block ends in any way."""
    started: list[ProducerProcess] = []
    try:
        for number in range(PRODUCERS):
            started.append(ProducerProcess(bootstrap, topic, number, records))
        yield started
    finally:
        for each in started:
            each.close()


class ProducerProcess:
    """One process of `bowstring.demo.headline_producer`.

    Attributes:
        records: acknowledged so far.
        ended: set when it has printed its last line.
        ended_at: time of that.
    """

    def __init__(self, bootstrap: str, topic: str, number: int, records: int):
        first = number * PARTITIONS // PRODUCERS  # different partitions for each producer
        order = Order(bootstrap, topic, first, records, RECORD_BYTES, SECONDS_MAX, SETTINGS)
        self.records = 0
        self.ended = threading.Event()
        self.ended_at = 0.0
        self._ready = threading.Event()
        self._last: dict[str, Any] | None = None
        command = [sys.executable, "-m", "bowstring.demo.headline_producer", json.dumps(order._asdict())]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._reader = threading.Thread(target=self._read, name="headline-producer", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            self.records = said["records"]
            self._ready.set()
            if "seconds" in said:
                self._last = said
                break
        self.ended_at = time.monotonic()
        self.ended.set()
        self._ready.set()

    @property
    def running(self) -> bool:
        """Whether the process is still sending."""
        return not self.ended.is_set()

    def await_ready(self) -> None:
        """Waits until the process is connected and ready to start."""
        if not self._ready.wait(START_SECONDS_MAX) or not self.running:
            raise self._failure("a producer did not start")

    def begin(self) -> None:
        """Makes the process start."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self) -> ProducerRun:
        """Returns the result."""
        if self._last is None:
            raise self._failure("a producer did not send its records")
        return ProducerRun(**self._last)

    def _failure(self, what: str) -> ProducerError:
        self.process.kill()
        _, said = self.process.communicate()
        return ProducerError(f"{what}: {said.strip()[-2_000:] or 'it said nothing'}")

    def close(self) -> None:
        """Ends the process if it still runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
