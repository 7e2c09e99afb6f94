"""Measures what access control and quotas cost that allow everything: with them and without, in turn."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bench.cases.cluster import a_record
from bench.cases.coordinators import COMMITTERS, INTERVALS_S, METADATA_TOPICS, PROTOCOL_CLIENT, run_load
from bench.cases.native_load import fill
from bench.cases.pairs import Pairs, new_topics, produced, records_of_a_run
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.peers.wire import Connection
from bench.procfs import cpu_seconds
from bench.results import CaseResult
from bowstring import Admin, Consumer
from bowstring.clients.admin.acls import AclBinding

RULES, CONTROL_RULES = 10_000, 1_000
_RULES_PER_REQUEST = 1_000
_PACE_S = 0.001
_TIMEOUT_S = 30.0
_NOT_REACHED = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}
_ANYONE = "User:ANONYMOUS"
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Until there are rules: they decide about the cluster and the topics of the bench.
    "allow.everyone.if.no.acl.found": "true",
}


# What clients repeat, with the figure of its load.
CONTROL_LOADS = {
    "commits": "commits_per_cpu_second",
    "offset-fetches": "per_cpu_second",
    "offset-listings": "per_cpu_second",
    "coordinator-lookups": "per_cpu_second",
    "metadata-of-topics": "per_cpu_second",
    "session-heartbeats": "per_cpu_second",
}
CONTROL_PAIRS = 5


def rules_and_quotas(lab: Lab, name: str, title: str) -> CaseResult:
    """Produces, reads and sends one record at a time, by the same clients to two brokers in turn."""
    size = lab.size
    facts = {
        "rules": f"{RULES:,}: of other users, and those that allow the client",
        "quotas": "of the user, with bytes and request time that it does not reach",
        "records": f"{records_of_a_run(lab):,} a time, {size.access_pairs} times for each broker",
        "record": f"{RECORD_BYTES} B value, no key; of the latency 1 KiB, acks=all, each 1 ms",
        "cores": "one of the clients, another of both brokers",
        "partitions": str(PARTITIONS),
        "figures": "medians; shares are of two runs one after the other",
    }

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name) as off, lab.new_peer(peer_name, _SETTINGS) as on:
            _add_rules(on, RULES)
            with Admin(on.bootstrap) as admin:
                admin.alter_client_quotas({"user": "ANONYMOUS"}, _NOT_REACHED)
            peers = {"off": off, "on": on}
            with _apart([off.pid, on.pid]):
                return produced(lab, peers) | _consumed(lab, peers) | _latency(lab, peers)

    return lab.alternate(CaseResult(name, title, facts), measure, peers=(Bowstring.name,))


def control_requests(lab: Lab, name: str, title: str) -> CaseResult:
    """Sends small requests of the control path, as quickly as two brokers in turn answer them."""
    size = lab.size
    seconds, warm_seconds = size.load_seconds / 5, size.load_warm_up_seconds / 10
    facts = {
        "rules": f"{CONTROL_RULES:,}: of other users, and those that allow the client",
        "quotas": "of the user, with bytes and request time that it does not reach",
        "connections": f"{COMMITTERS}, with one request in flight",
        "requests": ", ".join(CONTROL_LOADS),
        "measured": f"{seconds:g} s, {warm_seconds:g} s after the first, {CONTROL_PAIRS} times each",
        "figures": "requests for each CPU second of the broker: medians; shares are of two runs, one after "
        "the other",
        "client": PROTOCOL_CLIENT,
    }
    numbers = {
        **{"connections": COMMITTERS, "members": COMMITTERS, "groups": COMMITTERS, "partitions": 1},
        **{"topics": METADATA_TOPICS, "interval_s": INTERVALS_S["classic"]},
        **{"seconds": seconds, "warm_seconds": warm_seconds},
    }

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name) as off, lab.new_peer(peer_name, _SETTINGS) as on:
            _add_rules(on, CONTROL_RULES)
            with Admin(on.bootstrap) as admin:
                admin.alter_client_quotas({"user": "ANONYMOUS"}, _NOT_REACHED)
            peers = {"off": off, "on": on}
            found: dict[str, float] = {}
            for load, figure in CONTROL_LOADS.items():
                rates: dict[str, list[float]] = {name: [] for name in peers}
                for pair in range(CONTROL_PAIRS):
                    for name in Pairs(peers).order(pair):
                        topic = lab.new_topic(peers[name], 1)
                        rates[name].append(run_load(load, peers[name], topic, **numbers)[figure])
                        lab.delete_topic(peers[name], topic)
                found |= {f"{name}_{load}": statistics.median(each) for name, each in rates.items()}
                shares = [on / off for off, on in zip(rates["off"], rates["on"], strict=True)]
                found[f"{load}_share"] = statistics.median(shares)
            return found

    return lab.alternate(CaseResult(name, title, facts), measure, peers=(Bowstring.name,))


def _add_rules(peer: Peer, count: int) -> None:
    rules = [
        _rule("cluster", "kafka-cluster", "literal", _ANYONE, "all"),
        _rule("topic", "bench-", "prefixed", _ANYONE, "all"),
        _rule("group", "bench-", "prefixed", _ANYONE, "all"),
        *(
            _rule(
                "topic",
                f"team-{n % 997}-topic-{n}",
                "literal" if n % 5 else "prefixed",
                f"User:u{n % 331}",
                "read" if n % 2 else "write",
            )
            for n in range(count - 3)
        ),
    ]
    with Admin(peer.bootstrap) as admin:
        for at in range(0, len(rules), _RULES_PER_REQUEST):
            admin.create_acls(rules[at : at + _RULES_PER_REQUEST])


def _rule(resource: str, name: str, pattern: str, principal: str, operation: str) -> AclBinding:
    kinds: Any = (resource, name, pattern, principal, "*", operation, "allow")
    return AclBinding(*kinds)


def _consumed(lab: Lab, peers: dict[str, Peer]) -> dict[str, float]:
    records = 2 * records_of_a_run(lab)
    topics = new_topics(lab, peers, {})
    for name, peer in peers.items():
        fill(peer, topics[name], records)
    runs = Pairs(peers)
    for pair in range(-1, lab.size.access_pairs):
        for name in runs.order(pair):
            seconds, used = _read(peers[name], topics[name], records)
            if pair >= 0:
                runs.add(name, seconds, used)
    return runs.figures("fetch", records)


def _read(peer: Peer, topic: str, records: int) -> tuple[float, float]:
    """Returns the seconds and the broker's CPU seconds of reading a topic with a new consumer."""
    with Consumer(peer.bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.arrow_schema(layout="binary_view")
        before, began = cpu_seconds(peer.pid), time.perf_counter()
        consumer.assign(partitions)
        left = records
        while left > 0:
            rows = consumer.poll_arrow(layout="binary_view", timeout=_TIMEOUT_S).num_rows
            if not rows:
                raise PeerError(f"{left:,} of {records:,} records did not come within {_TIMEOUT_S:g} s")
            left -= rows
        return time.perf_counter() - began, cpu_seconds(peer.pid) - before


def _latency(lab: Lab, peers: dict[str, Peer]) -> dict[str, float]:
    """Sends one record at a time to both brokers, one after the other."""
    topics = {name: lab.new_topic(peer, partitions=1) for name, peer in peers.items()}
    times_ms: dict[str, list[float]] = {name: [] for name in peers}
    batch = a_record()
    connections = {name: peer.connect() for name, peer in peers.items()}
    order = Pairs(peers).order
    numbers = range(-lab.size.latency_warm_up // 10, lab.size.latency_records // 2)
    try:
        for number, name in ((at, name) for at in numbers for name in order(at)):
            spent_ms = _round_trip_ms(connections[name], topics[name], batch)
            if number >= 0:
                times_ms[name].append(spent_ms)
            time.sleep(_PACE_S)
    finally:
        for connection in connections.values():
            connection.__exit__()
    found: dict[str, float] = {}
    for name, times in times_ms.items():
        cuts = statistics.quantiles(times, n=100)
        found |= {f"{name}_p50_ms": cuts[49], f"{name}_p99_ms": cuts[98]}
    for cut in ("p50", "p99"):
        found[f"{cut}_over_off"] = found[f"on_{cut}_ms"] / found[f"off_{cut}_ms"]
    return found


@contextmanager
def _apart(pids: list[int]) -> Iterator[None]:
    """Keeps the clients on one core and the brokers on another: which threads share a core for a while makes
    more of a difference than what is measured.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield
        return
    threads = [int(each) for pid in pids for each in os.listdir(f"/proc/{pid}/task")]
    try:
        os.sched_setaffinity(0, cores[:1])
        for thread in threads:
            os.sched_setaffinity(thread, cores[1:2])
        yield
    finally:
        os.sched_setaffinity(0, cores)
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)


def _round_trip_ms(connection: Connection, topic: str, batch: bytes) -> float:
    began = time.perf_counter()
    connection.produce(topic, batch)
    return (time.perf_counter() - began) * 1e3
