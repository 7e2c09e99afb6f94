"""Compares Python clients on both brokers: ours, confluent-kafka, kafka-python; and Java's consumer.

confluent-kafka runs twice, with its defaults and with the best settings found; ours has its defaults.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from bench.cases.consume import FilledTopics
from bench.cases.produce import limit_seconds
from bench.clients import consumers, producers
from bench.clients.settings import told
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.limits import catalogue
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.tools import CONSUMER, consumer_arguments, finish_consumer
from bench.procfs import Meter
from bench.results import CaseResult

# Slow clients get fewer records, because rates are compared.
SLOWER = {
    "confluent-produce": 4,
    "confluent-produce-tuned": 4,
    "bowstring-send": 4,
    "kafka-python-send": 60,
    "bowstring-poll": 2,
    "bowstring-poll-10000": 2,
    "bowstring-iterate": 2,
    "confluent-consume": 4,
    "confluent-consume-tuned": 2,
    "bowstring-poll-json": 4,
    "bowstring-poll-avro": 4,
    "confluent-json": 16,
    "confluent-json-tuned": 8,
    "confluent-avro": 32,
    "confluent-avro-tuned": 32,
}
LEAST_RECORDS = 2_000
WRITTEN_WITH = "batch.size 16384, linger.ms 5; from the page cache"


@dataclass(frozen=True)
class ClientRun:
    """One client's run, and its cost for the broker."""

    records: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float

    @property
    def records_per_second(self) -> float:
        """Rate by the client's own clock."""
        return self.records / self.seconds

    def figures(self, name: str) -> dict[str, float]:
        """Returns the run's figures under the client's name: rate, and CPU of client and broker
        separately.
        """
        return {
            f"{name}_records_per_second": self.records_per_second,
            f"{name}_client_cpu_ns_per_record": self.cpu_seconds / self.records * 1e9,
            f"{name}_broker_cpu_seconds_per_gb": self.broker_cpu_seconds
            / (self.records * RECORD_BYTES / 1e9),
        }


def run_client(client: str, peer: Peer, topic: str, records: int) -> ClientRun:
    """Runs one client of bench.clients against `peer` in its own process.

    Raises:
        PeerError: the client failed, was too slow, or saw fewer records.
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
    """Returns how many of a case's records this client gets."""
    return max(min(records, LEAST_RECORDS), records // SLOWER.get(client, 1))


# ---------------------------------------------------------------- producing


def arrow_produce(lab: Lab, name: str, title: str) -> CaseResult:
    """`send_arrow` beside confluent-kafka's loop, acks=1, one process each."""
    facts = _facts(lab, "send_arrow of 100,000-row batches; confluent-kafka's produce()")
    case = CaseResult(name, title, facts | {"confluent tuned": told(producers.CONFLUENT_TUNED)})

    def measure(peer_name: str) -> dict[str, float]:
        clients = ["bowstring-send-arrow", "confluent-produce", "confluent-produce-tuned"]
        ours, confluent, tuned = _produce(lab, lab.peer(peer_name), clients)
        return {
            "records_per_second": ours.records_per_second,
            **_beside_confluent(ours, confluent, tuned),
        }

    limits = catalogue.produce_in_pieces(catalogue.beside_clients(RECORD_BYTES))
    return lab.alternate(case, measure, limits=limits)


def send(lab: Lab, name: str, title: str) -> CaseResult:
    """`send` for each record beside confluent-kafka and kafka-python, acks=1."""
    facts = _facts(lab, "send(), produce() and send() for each record")
    case = CaseResult(name, title, facts | {"confluent tuned": told(producers.CONFLUENT_TUNED)})

    def measure(peer_name: str) -> dict[str, float]:
        clients = ["bowstring-send", "confluent-produce", "confluent-produce-tuned", "kafka-python-send"]
        ours, confluent, tuned, kafka_python = _produce(lab, lab.peer(peer_name), clients)
        return {
            "records_per_second": ours.records_per_second,
            "times_kafka_python": ours.records_per_second / kafka_python.records_per_second,
            **_beside_confluent(ours, confluent, tuned),
            **kafka_python.figures("kafka_python"),
        }

    limits = catalogue.produce_in_pieces(catalogue.beside_clients(RECORD_BYTES))
    return lab.alternate(case, measure, limits=limits)


def arrow_beside_send(lab: Lab, name: str, title: str) -> CaseResult:
    """`send_arrow` beside `send` for each record: as many records each, in turn, acks=1."""
    send, arrow = "bowstring-send", "bowstring-send-arrow"
    records = share_of(send, lab.size.client_records)
    facts = _facts(lab, "send_arrow() of 100,000-row batches; send() for each record")
    pairs = lab.size.rounds
    more = {"records": f"{records:,} each, {pairs} pairs in turn", "figures": "of the median pair"}
    case = CaseResult(name, title, facts | more)

    def measure(peer_name: str) -> dict[str, float]:
        runs: list[dict[str, ClientRun]] = []
        for number in range(pairs):
            order = (send, arrow) if number % 2 else (arrow, send)
            runs.append(
                {client: _on_new_topic(lab, lab.peer(peer_name), client, records) for client in order}
            )
        middle = sorted(runs, key=lambda pair: _times(pair[arrow], pair[send]))[len(runs) // 2]
        return {
            "records_per_second": middle[arrow].records_per_second,
            "times_send": _times(middle[arrow], middle[send]),
            **middle[arrow].figures("arrow"),
            **middle[send].figures("send"),
        }

    return lab.alternate(case, measure, peers=(Bowstring.name,))


def _times(one: ClientRun, other: ClientRun) -> float:
    return one.records_per_second / other.records_per_second


def _beside_confluent(ours: ClientRun, confluent: ClientRun, tuned: ClientRun) -> dict[str, float]:
    return {
        "times_confluent": ours.records_per_second / confluent.records_per_second,
        "times_confluent_tuned": ours.records_per_second / tuned.records_per_second,
        **ours.figures("bowstring"),
        **confluent.figures("confluent"),
        **tuned.figures("confluent_tuned"),
    }


def _produce(lab: Lab, peer: Peer, clients: list[str]) -> list[ClientRun]:
    return [_on_new_topic(lab, peer, each, share_of(each, lab.size.client_records)) for each in clients]


def _on_new_topic(lab: Lab, peer: Peer, client: str, records: int) -> ClientRun:
    topic = lab.new_topic(peer)
    try:
        return run_client(client, peer, topic, records)
    finally:
        lab.delete_topic(peer, topic)


# ---------------------------------------------------------------- consuming


def arrow_consume(lab: Lab, topics: FilledTopics, name: str, title: str) -> CaseResult:
    """`poll_arrow` over TCP beside confluent-kafka's consume() and Java's ConsumerPerformance."""
    facts = _facts(
        lab,
        "poll_arrow() with its defaults; consume(10000), poll() of 10,000 and of 500, and iteration, "
        "an object for each record; ConsumerPerformance in a warm JVM",
    )
    more = {"written with": WRITTEN_WITH, "confluent tuned": told(consumers.CONFLUENT_TUNED)}
    case = CaseResult(name, title, facts | more)

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        topic, records = topics.topic(peer), lab.size.consume_records
        ours = run_client("bowstring-poll-arrow", peer, topic, records)

        def by_the_record(client: str) -> ClientRun:
            return run_client(client, peer, topic, share_of(client, records))

        confluent, tuned = by_the_record("confluent-consume"), by_the_record("confluent-consume-tuned")
        polled, polled_10000 = by_the_record("bowstring-poll"), by_the_record("bowstring-poll-10000")
        iterated = by_the_record("bowstring-iterate")
        views = run_client("bowstring-poll-arrow-views", peer, topic, records)
        return {
            "records_per_second": ours.records_per_second,
            "java_records_per_second": _java(lab, peer, topic, records),
            "poll_times_confluent_tuned": polled_10000.records_per_second / tuned.records_per_second,
            **_beside_confluent(ours, confluent, tuned),
            **views.figures("bowstring_views"),
            **polled.figures("bowstring_poll"),
            **polled_10000.figures("bowstring_poll_10000"),
            **iterated.figures("bowstring_iterate"),
        }

    limits = catalogue.fetch(catalogue.beside_clients(RECORD_BYTES))
    return lab.alternate(case, measure, limits=limits)


def local_read(lab: Lab, topics: FilledTopics, name: str, title: str) -> CaseResult:
    """Reads mapped segment files instead of TCP; no peer has them."""
    facts = _facts(
        lab,
        "LocalReader, every column: two threads with views into the files; copied; copied by one thread",
    )
    case = CaseResult(name, title, facts | {"written with": WRITTEN_WITH})

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
