"""Python clients beside each other, on both brokers: ours, confluent-kafka, kafka-python; Java's consumer."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from bench.cases.consume import FilledTopics
from bench.cases.produce import limit_seconds
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.tools import CONSUMER, consumer_arguments, finish_consumer
from bench.procfs import Meter
from bench.results import CaseResult

# A client that is slow by nature is given fewer records: rates are what is compared.
SLOWER = {"confluent-produce": 4, "bowstring-send": 4, "kafka-python-send": 60, "confluent-consume": 4}
LEAST_RECORDS = 2_000


@dataclass(frozen=True)
class ClientRun:
    """One client's run, and what it cost the broker."""

    records: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float

    @property
    def records_per_second(self) -> float:
        """By the client's own clock."""
        return self.records / self.seconds

    def figures(self, name: str) -> dict[str, float]:
        """The run's figures under the client's name: rate, and CPU of client and broker apart."""
        return {
            f"{name}_records_per_second": self.records_per_second,
            f"{name}_client_cpu_ns_per_record": self.cpu_seconds / self.records * 1e9,
            f"{name}_broker_cpu_seconds_per_gb": self.broker_cpu_seconds
            / (self.records * RECORD_BYTES / 1e9),
        }


def run_client(client: str, peer: Peer, topic: str, records: int) -> ClientRun:
    """Runs one client of bench.clients against `peer` in a process of its own.

    Raises:
        PeerError: it failed, was not done in time, or saw fewer records.
    """
    command = [sys.executable, "-m", "bench.clients", client, peer.bootstrap, topic, str(records)]
    with Meter(peer.pid) as meter:
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=limit_seconds(records) + 60
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"{client} was not done within {error.timeout:.0f} s") from error
        except subprocess.CalledProcessError as error:
            raise PeerError(f"{client} ended with {error.returncode}: {error.stderr[-2000:]}") from error
    found = json.loads(ended.stdout.splitlines()[-1])
    if found["records"] < records:
        raise PeerError(f"{client} saw {found['records']} of {records} records")
    return ClientRun(found["records"], found["seconds"], found["cpu_seconds"], meter.cpu_seconds)


def share_of(client: str, records: int) -> int:
    """How many of a case's records this client is given."""
    return max(min(records, LEAST_RECORDS), records // SLOWER.get(client, 1))


# ---------------------------------------------------------------- producing


def arrow_produce(lab: Lab, name: str, title: str) -> CaseResult:
    """`send_arrow` beside confluent-kafka's loop, acks=1, one process each."""
    case = CaseResult(
        name, title, _facts(lab, "send_arrow of 100,000-row batches; confluent-kafka's produce()")
    )

    def measure(peer_name: str) -> dict[str, float]:
        ours, confluent = _produce(lab, lab.peer(peer_name), ["bowstring-send-arrow", "confluent-produce"])
        return {
            "records_per_second": ours.records_per_second,
            "times_confluent": ours.records_per_second / confluent.records_per_second,
            **ours.figures("bowstring"),
            **confluent.figures("confluent"),
        }

    return lab.alternate(case, measure)


def send(lab: Lab, name: str, title: str) -> CaseResult:
    """`send` for each record beside confluent-kafka and kafka-python, acks=1."""
    case = CaseResult(name, title, _facts(lab, "send(), produce() and send() for each record"))

    def measure(peer_name: str) -> dict[str, float]:
        clients = ["bowstring-send", "confluent-produce", "kafka-python-send"]
        ours, confluent, kafka_python = _produce(lab, lab.peer(peer_name), clients)
        return {
            "records_per_second": ours.records_per_second,
            "times_confluent": ours.records_per_second / confluent.records_per_second,
            "times_kafka_python": ours.records_per_second / kafka_python.records_per_second,
            **ours.figures("bowstring"),
            **confluent.figures("confluent"),
            **kafka_python.figures("kafka_python"),
        }

    return lab.alternate(case, measure)


def _produce(lab: Lab, peer: Peer, clients: list[str]) -> list[ClientRun]:
    runs = []
    for client in clients:
        topic = lab.new_topic(peer)
        runs.append(run_client(client, peer, topic, share_of(client, lab.size.client_records)))
        lab.delete_topic(peer, topic)
    return runs


# ---------------------------------------------------------------- consuming


def arrow_consume(lab: Lab, topics: FilledTopics, name: str, title: str) -> CaseResult:
    """`poll_arrow` over TCP beside confluent-kafka's consume() and Java's ConsumerPerformance."""
    facts = _facts(lab, "poll_arrow() with its defaults; consume(10000); ConsumerPerformance in a warm JVM")
    case = CaseResult(
        name, title, facts | {"written with": "batch.size 16384, linger.ms 5; from the page cache"}
    )

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        topic, records = topics.topic(peer), lab.size.consume_records
        ours = run_client("bowstring-poll-arrow", peer, topic, records)
        confluent = run_client("confluent-consume", peer, topic, share_of("confluent-consume", records))
        views = run_client("bowstring-poll-arrow-views", peer, topic, records)
        return {
            "records_per_second": ours.records_per_second,
            "times_confluent": ours.records_per_second / confluent.records_per_second,
            "java_records_per_second": _java(lab, peer, topic, records),
            **ours.figures("bowstring"),
            **views.figures("bowstring_views"),
            **confluent.figures("confluent"),
        }

    return lab.alternate(case, measure)


def local_read(lab: Lab, topics: FilledTopics, name: str, title: str) -> CaseResult:
    """Mapped segment files instead of TCP; there is no peer that has them."""
    facts = _facts(
        lab,
        "LocalReader, every column: two threads with views into the files; copied; copied by one thread",
    )
    case = CaseResult(
        name, title, facts | {"written with": "batch.size 16384, linger.ms 5; from the page cache"}
    )

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        topic, records = topics.topic(peer), lab.size.consume_records
        two = run_client("bowstring-local-two-threads", peer, topic, records)
        one = run_client("bowstring-local", peer, topic, records)
        views = run_client("bowstring-local-views", peer, topic, records)
        return {
            "records_per_second": views.records_per_second,
            **views.figures("views"),
            **two.figures("copied"),
            **one.figures("copied_one_thread"),
        }

    return lab.alternate(case, measure, peers=(Bowstring.name,))


def _java(lab: Lab, peer: Peer, topic: str, records: int) -> float:
    (host,) = lab.hosts(1)
    host.begin(CONSUMER, consumer_arguments(peer.bootstrap, topic, records))
    return finish_consumer(host, records, limit_seconds(records)).fetch_records_per_second


def _facts(lab: Lab, calls: str) -> dict[str, str]:
    return {
        "records": f"{lab.size.client_records:,} sent, {lab.size.consume_records:,} read; slower ones fewer",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "acks": "1",
        "calls": calls,
        "client": "a Python process of its own for each run; other settings are each library's defaults",
    }
