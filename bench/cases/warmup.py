"""Generates load before the first measured round, so that neither Kafka's nor the clients' JIT is
measured.
"""

from __future__ import annotations

import time

from bench.cases.produce import LARGE_BATCHES, MIB, MODERN_DEFAULTS, SMALL_BATCHES, limit_seconds
from bench.lab import EXPECTED_FAILURES, RECORD_BYTES, Lab, log
from bench.peers.tools import (
    CONSUMER,
    PRODUCER,
    consumer_arguments,
    finish_consumer,
    finish_producer,
    producer_arguments,
)
from bench.procfs import memory
from bench.results import CaseResult

HOSTS = 3
RECORDS_PER_PASS = 500_000


def warm_up(lab: Lab) -> None:
    """Loads every peer for the size's time: each pass produces with one of the settings, then consumes."""
    if lab.size.warm_up_seconds <= 0:
        return
    for name in lab.size.peers:
        log(f"warming {name} up for {lab.size.warm_up_seconds:g} s")
        try:
            _load(lab, name)
        except EXPECTED_FAILURES as error:
            # The cases report this peer's failures; the other peer still needs its warm-up.
            log(f"warm-up of {name} FAILED: {error}")


def memory_under_load(lab: Lab, name: str, title: str) -> CaseResult:
    """Reads the highest resident memory of each broker since its start, after the load cases."""
    facts = {"measured": "VmHWM of the broker that has served every produce, consume and latency round"}
    return lab.alternate(CaseResult(name, title, facts), lambda peer: _high_water(lab, peer), rounds=1)


def _high_water(lab: Lab, name: str) -> dict[str, float]:
    now = memory(lab.peer(name).pid)
    return {"rss_peak_mib": now.rss_peak_bytes / MIB, "rss_now_mib": now.rss_bytes / MIB}


def _load(lab: Lab, name: str) -> None:
    peer = lab.peer(name)
    hosts = lab.hosts(HOSTS)
    deadline = time.monotonic() + lab.size.warm_up_seconds
    while time.monotonic() < deadline:
        for settings in (SMALL_BATCHES, MODERN_DEFAULTS, LARGE_BATCHES):
            topic = lab.new_topic(peer)
            for host in hosts:
                arguments = producer_arguments(
                    peer.bootstrap, topic, RECORDS_PER_PASS, RECORD_BYTES, settings
                )
                host.begin(PRODUCER, arguments)
            for host in hosts:
                finish_producer(host, RECORDS_PER_PASS, limit_seconds(RECORDS_PER_PASS))
            stored = RECORDS_PER_PASS * HOSTS
            for host in hosts:
                host.begin(CONSUMER, consumer_arguments(peer.bootstrap, topic, stored))
            for host in hosts:
                finish_consumer(host, stored, limit_seconds(stored))
            lab.delete_topic(peer, topic)
            if time.monotonic() >= deadline:
                return
