"""The headline: three producers at once into one broker, with the settings of Jay Kreps's article of 2014.

Each producer is a process of its own, as each was a machine of its own there. They connect first and begin
together; the rate is that of all records between the word to begin and the last acknowledgement.
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

from bowstring.clients.admin import Admin
from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicPartition
from bowstring.demo.headline_producer import Order
from bowstring.demo.threads import broker_cpu_s

PRODUCERS = 3
RECORD_BYTES = 100
PARTITIONS = 6
SETTINGS = {"acks": "1", "batch.size": "8196", "buffer.memory": "67108864"}
# Three producers, three times asynchronous replication, on three machines with three others for the load.
RECORDS_PER_S_2014 = 2_024_032
TOPIC = "headline"
# Acknowledged from the page cache, as there.
TOPIC_CONFIGS = {"bowstring.durability": "os", "retention.ms": "-1"}
# A slow machine stops here, with as many records as it has come to.
SECONDS_MAX = 15.0
START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 120.0
# Of a record in a batch of 8 KB, with its share of the batch's header and of the indexes.
STORED_BYTES_PER_RECORD = 110

Progress = Callable[[int, int], None]


class ProducerError(ClientError):
    """One of the producers' processes failed; the message has what it said."""


class ProducerRun(NamedTuple):
    """What one producer did; `seconds` from the word to begin to its last acknowledgement."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def records_per_s(self) -> float:
        """Throughput."""
        return self.records / self.seconds if self.seconds else 0.0


class Headline(NamedTuple):
    """What the producers came to together.

    Attributes:
        runs: by producer.
        seconds: until the last of them was done.
        broker_cpu_s: CPU-seconds that the broker used meanwhile.
        stored: records that the topic has in the end.
    """

    runs: tuple[ProducerRun, ...]
    seconds: float
    broker_cpu_s: float
    stored: int

    @property
    def records(self) -> int:
        """Acknowledged records."""
        return sum(run.records for run in self.runs)

    @property
    def size_bytes(self) -> int:
        """Of their values."""
        return self.records * RECORD_BYTES

    @property
    def records_per_s(self) -> float:
        """Of all together."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong."""
        if self.stored == self.records:
            return ()
        return (
            f"{self.records:,} records were acknowledged to the producers, the topic has {self.stored:,}",
        )

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "producers": [run._asdict() | {"records_per_s": run.records_per_s} for run in self.runs],
            "records": self.records,
            "seconds": self.seconds,
            "records_per_s": self.records_per_s,
            "records_per_s_2014": RECORDS_PER_S_2014,
            "broker_cpu_s": self.broker_cpu_s,
        }


def records_that_fit(records: int, folder: Path) -> int:
    """As many records for each producer as asked, or as half of the free space of the disk takes."""
    fit = shutil.disk_usage(folder).free // 2 // (PRODUCERS * STORED_BYTES_PER_RECORD)
    return max(1, min(records, fit))


def run(bootstrap: str, records: int, progress: Progress) -> Headline:
    """Makes the topic and fills it; `progress` is told (producer, its acknowledged records).

    Args:
        records: of each producer; fewer are sent when that takes longer than SECONDS_MAX.

    Raises:
        ProducerError: a producer did not start, failed, or did not end.
    """
    with Admin(bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, configs=TOPIC_CONFIGS)
        with _producers(bootstrap, records) as producers:
            for each in producers:
                each.await_ready()
            cpu, began = broker_cpu_s(), time.monotonic()
            for each in producers:
                each.begin()
            while any(each.running for each in producers) and time.monotonic() < began + END_SECONDS_MAX:
                for number, each in enumerate(producers):
                    each.ended.wait(0.1 / len(producers))
                    progress(number, each.records)
            runs = tuple(each.result() for each in producers)
            used = broker_cpu_s() - cpu
            seconds = max(each.ended_at for each in producers) - began
        for number, run in enumerate(runs):
            progress(number, run.records)
        partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        begin, end = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
    return Headline(runs, seconds, used, sum(end.values()) - sum(begin.values()))


@contextmanager
def _producers(bootstrap: str, records: int) -> Iterator[list[_Producer]]:
    """The processes; none is left when the block ends, however it does."""
    started: list[_Producer] = []
    try:
        for number in range(PRODUCERS):
            started.append(_Producer(bootstrap, number, records))
        yield started
    finally:
        for each in started:
            each.close()


class _Producer:
    """One process of `bowstring.demo.headline_producer`.

    Attributes:
        records: acknowledged so far.
        ended: set when it has said its last word.
        ended_at: when that was.
    """

    def __init__(self, bootstrap: str, number: int, records: int):
        first = number * PARTITIONS // PRODUCERS  # not all on the same partition
        order = Order(bootstrap, TOPIC, first, records, RECORD_BYTES, SECONDS_MAX, SETTINGS)
        self.records = 0
        self.ended = threading.Event()
        self.ended_at = 0.0
        self._ready = threading.Event()
        self._last: dict[str, Any] | None = None
        command = [sys.executable, "-m", "bowstring.demo.headline_producer", json.dumps(order._asdict())]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._reader = threading.Thread(target=self._read, name="headline-producer", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
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
        """Whether there is more to come."""
        return not self.ended.is_set()

    def await_ready(self) -> None:
        """Returns when it is connected and waits for the word."""
        if not self._ready.wait(START_SECONDS_MAX) or not self.running:
            raise self._failure("a producer did not start")

    def begin(self) -> None:
        """The word."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def result(self) -> ProducerRun:
        """What it did."""
        if self._last is None:
            raise self._failure("a producer did not send its records")
        return ProducerRun(**self._last)

    def _failure(self, what: str) -> ProducerError:
        self._process.kill()
        _, said = self._process.communicate()
        return ProducerError(f"{what}: {said.strip()[-2_000:] or 'it said nothing'}")

    def close(self) -> None:
        """Ends it, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
