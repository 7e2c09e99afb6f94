"""Runs the headline as in 2014: three producers at once, three brokers, and three replicas of every record.

The brokers are processes, each a controller, too. Acknowledged are records that the leader has (acks=1, "3x
asynchronous replication" in the article). The clock of the replicas goes on until they have everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError
from bowstring.clients.records import TopicPartition
from bowstring.cluster.cluster import Cluster
from bowstring.cluster.process import NodeError
from bowstring.demo import headline
from bowstring.demo.headline import PARTITIONS, RECORD_BYTES, RECORDS_PER_S_2014, ProducerRun
from bowstring.demo.threads import processes_cpu_s

BROKERS = 3
# Of each producer: a quick run takes some seconds.
RECORDS_MAX = 2_000_000
TOPIC = "replicated"
REPLICATED_SECONDS_MAX = 60.0
CHECK_S = 0.02

Progress = Callable[[int, int], None]


class Replicated(NamedTuple):
    """Result of all producers together.

    Attributes:
        runs: by producer.
        seconds: until the last of them was done.
        replicated_seconds: until every replica had every record.
        brokers_cpu_s: CPU-seconds that the three brokers used until then.
        stored: records that all replicas have.
        problem: why there is no result; "" if there is one.
    """

    runs: tuple[ProducerRun, ...] = ()
    seconds: float = 0.0
    replicated_seconds: float = 0.0
    brokers_cpu_s: float = 0.0
    stored: int = 0
    problem: str = ""

    @property
    def records(self) -> int:
        """Acknowledged records."""
        return sum(run.records for run in self.runs)

    @property
    def records_per_s(self) -> float:
        """Throughput of all together, until the last acknowledgement."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def replicated_per_s(self) -> float:
        """The same until every replica has them."""
        return self.records / self.replicated_seconds if self.replicated_seconds else 0.0

    @property
    def brokers_cpu_s_per_gb(self) -> float:
        """CPU-seconds of the three brokers together for 10⁹ bytes of values."""
        return self.brokers_cpu_s / (self.records * RECORD_BYTES / 1e9) if self.records else 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems."""
        if self.problem:
            return (self.problem,)
        if self.stored == self.records:
            return ()
        return (
            f"{self.records:,} records were acknowledged by three brokers, all replicas have {self.stored:,}",
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the figures for JSON output."""
        return {
            "producers": [run._asdict() | {"records_per_s": run.records_per_s} for run in self.runs],
            "records": self.records,
            "records_per_s": self.records_per_s,
            "replicated_per_s": self.replicated_per_s,
            "records_per_s_2014": RECORDS_PER_S_2014,
            "brokers_cpu_s_per_gb": self.brokers_cpu_s_per_gb,
            "problems": list(self.problems),
        }


def run(records: int, progress: Progress, *, folder: Path | None = None) -> Replicated:
    """Starts the cluster, fills a topic, and ends the cluster.

    Args:
        records: of each producer; fewer are sent if that takes longer than headline.SECONDS_MAX.
        progress: called with (producer, its acknowledged records).
        folder: for the brokers' data; by default a temporary one.

    Returns:
        The result; if brokers or producers failed, with the reason.
    """
    try:
        with Cluster(BROKERS, data_dir=folder, linked=False) as cluster:
            return _fill(cluster, records, progress)
    except (NodeError, ClientError, OSError) as error:
        return Replicated(problem=f"three brokers did not take the producers' records: {error}")


def records_that_fit(records: int, folder: Path) -> int:
    """Returns the number of records for each producer, if the disk has room for all replicas."""
    return min(RECORDS_MAX, records, headline.records_that_fit(BROKERS * records, folder) // BROKERS or 1)


def _fill(cluster: Cluster, records: int, progress: Progress) -> Replicated:
    bootstrap = cluster.bootstrap_servers
    pids = [cluster.pid(id) for id in cluster.broker_ids]
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    with Admin(bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, BROKERS, headline.TOPIC_CONFIGS)
        with headline.producers(bootstrap, TOPIC, records) as producers:
            for each in producers:
                each.await_ready()
            cpu, began = processes_cpu_s(pids), time.monotonic()
            for each in producers:
                each.begin()
            seconds = headline.await_producers(producers, began, progress)
            runs = tuple(each.result() for each in producers)
        sent = sum(run.records for run in runs)
        deadline = time.monotonic() + REPLICATED_SECONDS_MAX
        # The end offset of consumers is the high watermark: what all replicas in sync have.
        while (stored := _stored(admin, partitions)) < sent and time.monotonic() < deadline:
            time.sleep(CHECK_S)
        replicated_seconds, used = time.monotonic() - began, processes_cpu_s(pids) - cpu
    for number, run in enumerate(runs):
        progress(number, run.records)
    return Replicated(runs, seconds, max(seconds, replicated_seconds), used, stored)


def _stored(admin: Admin, partitions: list[TopicPartition]) -> int:
    with suppress(ClientError):  # a leader that moves right now
        return sum(admin.end_offsets(partitions).values())
    return 0
