"""Compares polls that give dicts: our consumer with a format; confluent-kafka with a decoder beside it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import bowstring
from bench.cases.clients import ClientRun, run_client, share_of
from bench.clients.consumers import CONFLUENT_BATCH, CONFLUENT_TUNED
from bench.clients.objects import AVRO, avro_format, json_format, order
from bench.clients.settings import told
from bench.lab import PARTITIONS, Lab, wait_until_calm
from bench.peers.peer import Peer
from bench.results import CaseResult

if TYPE_CHECKING:
    from bowstring.values.format import ValueFormat

# Different values; a topic has them again and again.
VALUES = 10_000


def poll_json(lab: Lab, name: str, title: str) -> CaseResult:
    """`poll` with `value=Json(schema)` beside consume() and orjson.loads."""
    return _poll(lab, CaseResult(name, title, _facts(lab, "orjson.loads")), json_format, "json")


def poll_avro(lab: Lab, name: str, title: str) -> CaseResult:
    """`poll` with `value=Avro(…)` by schema id beside consume() and AvroDeserializer."""
    facts = _facts(lab, "AvroDeserializer, its registry in memory")
    return _poll(lab, CaseResult(name, title, facts), avro_format, "avro")


def _poll(lab: Lab, case: CaseResult, make: Callable[[], ValueFormat], kind: str) -> CaseResult:
    topics: dict[str, str] = {}

    def measure(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        if peer_name not in topics:
            topics[peer_name] = _filled(lab, peer, make())

        def run(client: str) -> ClientRun:
            return run_client(client, peer, topics[peer_name], share_of(client, lab.size.client_records))

        ours, theirs = run(f"bowstring-poll-{kind}"), run(f"confluent-{kind}")
        tuned = run(f"confluent-{kind}-tuned")
        figures = {
            "records_per_second": ours.records_per_second,
            "times_confluent": ours.records_per_second / theirs.records_per_second,
            "times_confluent_tuned": ours.records_per_second / tuned.records_per_second,
            "cpu_times_confluent": _cpu_seconds(theirs) / _cpu_seconds(ours),
        }
        for who, each in (("bowstring", ours), ("confluent", theirs), ("confluent_tuned", tuned)):
            figures[f"{who}_records_per_second"] = each.records_per_second
            figures[f"{who}_client_cpu_ns_per_record"] = _cpu_seconds(each) * 1e9
        return figures

    return lab.alternate(case, measure)


def _cpu_seconds(run: ClientRun) -> float:
    return run.cpu_seconds / run.records


def _filled(lab: Lab, peer: Peer, form: ValueFormat) -> str:
    """Returns a new topic, with as many records as the quickest client reads, and so many that consume() has
    its number at once.
    """
    topic = lab.new_topic(peer)
    values = [form.encode_value(order(number)) for number in range(VALUES)]
    left = max(share_of("bowstring-poll-json", lab.size.client_records), 2 * CONFLUENT_BATCH)
    with bowstring.Producer(peer.bootstrap) as producer:
        while left > 0:
            for value in islice(values, left):
                producer.send(topic, value)
            left -= VALUES
        producer.flush()
    wait_until_calm()
    return topic


def _facts(lab: Lab, decoder: str) -> dict[str, str]:
    return {
        "records": f"{share_of('bowstring-poll-json', lab.size.client_records):,}; slower clients read fewer",
        "record": f"{len(AVRO['fields'])} fields: five strings, three integers, a float, a boolean; no key",
        "partitions": str(PARTITIONS),
        "calls": f"poll() with a format, 500 records at once; consume(10000) and {decoder} for each value",
        "client": "a Python process of its own for each run; other settings are each library's defaults",
        "confluent tuned": told(CONFLUENT_TUNED),
    }
