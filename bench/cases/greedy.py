"""Measures what one client's traffic does to another's latency, with a byte quota and without."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.cases.cluster import a_record
from bench.cases.native_load import fill
from bench.clients.greedy import CLIENT_ID
from bench.lab import Lab
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.results import CaseResult
from bowstring import Admin

# Ten seconds' worth may come at once, as in Kafka, in each eleven.
BYTES_PER_SECOND = 5e6
_PACE_S = 0.002
# Of the time: the greedy client first sends what a whole window of its quota allows, as quickly as it can.
_BURST_SHARE = 5
_WARM_UP_RECORDS = 500
_FILLED_RECORDS = 1_000_000
_QUOTAS = ("producer_byte_rate", "consumer_byte_rate")
_VERBS = ("produce", "consume")


def beside_another(lab: Lab, name: str, title: str) -> CaseResult:
    """Produces a record each 2 ms: alone, and beside a client that produces or reads as much as it may."""
    seconds = lab.size.greedy_seconds
    facts = {
        "measured": "Produce of one 1 KiB record, acks=all, each 2 ms by a blocking socket",
        "greedy": "send_arrow, or poll_arrow of a topic in the page cache, without a pause",
        "its quota": f"{BYTES_PER_SECOND / 1e6:g} MB/s, by client id",
        "for": f"{seconds:g} s after the first {seconds / _BURST_SHARE:g} s, which hold the burst that a new "
        f"quota allows (burst …); {seconds / 2:g} s without a quota",
    }

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name) as peer:
            return _measure(lab, peer)

    return lab.alternate(CaseResult(name, title, facts), measure, peers=(Bowstring.name,))


def _measure(lab: Lab, peer: Peer) -> dict[str, float]:
    seconds = lab.size.greedy_seconds
    topic, read = lab.new_topic(peer, partitions=1), lab.new_topic(peer)
    records = min(_FILLED_RECORDS, lab.size.consume_records)
    fill(peer, read, records)
    _times_ms(peer, topic, records=_WARM_UP_RECORDS)
    found = _cuts("quiet", _times_ms(peer, topic, seconds=seconds))
    for limited in (True, False):
        _set_quotas(peer, BYTES_PER_SECOND if limited else None)
        for verb in _VERBS:
            key = f"beside_{verb}" if limited else f"unlimited_{verb}"
            of = lab.new_topic(peer) if verb == "produce" else read
            with _greedy(peer, verb, of, records):
                if limited:
                    found |= _cuts(f"burst_{verb}", _times_ms(peer, topic, seconds=seconds / _BURST_SHARE))
                times_ms = _times_ms(peer, topic, seconds=seconds if limited else seconds / 2)
            if of != read:
                lab.delete_topic(peer, of)
            found |= _cuts(key, times_ms)
            found[f"{key}_p99_over_quiet"] = found[f"{key}_p99_ms"] / found["quiet_p99_ms"]
    return found


def _cuts(key: str, times_ms: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times_ms, n=100)
    return {f"{key}_p50_ms": cuts[49], f"{key}_p99_ms": cuts[98], f"{key}_max_ms": max(times_ms)}


def _times_ms(peer: Peer, topic: str, *, seconds: float = 0.0, records: int = 2) -> list[float]:
    """Returns how long each record took; for a time, or as many records if those take longer."""
    batch = a_record()
    times_ms: list[float] = []
    end = time.monotonic() + seconds
    with peer.connect() as connection:
        connection.produce(topic, batch)
        while time.monotonic() < end or len(times_ms) < records:
            began = time.perf_counter()
            connection.produce(topic, batch)
            times_ms.append((time.perf_counter() - began) * 1e3)
            time.sleep(_PACE_S)
    return times_ms


def _set_quotas(peer: Peer, bytes_per_second: float | None) -> None:
    with Admin(peer.bootstrap) as admin:
        admin.alter_client_quotas({"client-id": CLIENT_ID}, dict.fromkeys(_QUOTAS, bytes_per_second))


@contextmanager
def _greedy(peer: Peer, verb: str, topic: str, records: int) -> Iterator[None]:
    """Runs the greedy client meanwhile; returns when it has begun."""
    command = [sys.executable, "-m", "bench.clients", f"bowstring-greedy-{verb}"]
    log = peer.work / f"greedy-{verb}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, peer.bootstrap, topic, str(records)], stdout=subprocess.PIPE, stderr=errors
        )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise PeerError(f"the greedy client ended:\n{log.read_text(errors='replace')[-2000:]}")
        yield
        if process.poll() is not None:
            raise PeerError(f"the greedy client ended early:\n{log.read_text(errors='replace')[-2000:]}")
    finally:
        process.kill()
        process.wait()
