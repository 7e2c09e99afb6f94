"""Measures what the audit of counts costs a Python client."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from bench.cases.native_load import fill
from bench.cases.produce import limit_seconds
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.results import CaseResult

# A time of one pair; more pairs are better than longer ones.
_RECORDS = 100_000


def counted(lab: Lab, name: str, title: str) -> CaseResult:
    """Sends and reads with an audit and without, in turn in one process."""
    records = min(_RECORDS, lab.size.client_records)
    facts = {
        "records": f"{records:,} a time, {lab.size.access_pairs} pairs",
        "record": f"{RECORD_BYTES} B value, no key",
        "partitions": str(PARTITIONS),
        "calls": "send(); poll() of at most 10,000; poll_arrow()",
        "figures": "CPU time of the client's process when it counts, times that when it does not; the median "
        "pair. Both times the same client, with its thread of reports",
    }

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name) as peer:
            to, filled = lab.new_topic(peer), lab.new_topic(peer)
            fill(peer, filled, records)
            arguments = [peer.bootstrap, to, filled, str(records), str(lab.size.access_pairs)]
            return _measure(arguments, records)

    return lab.alternate(CaseResult(name, title, facts), measure, peers=(Bowstring.name,))


def _measure(arguments: list[str], records: int) -> dict[str, float]:
    pairs = int(arguments[-1])
    ran = subprocess.run(
        [sys.executable, "-m", "bench.clients.audited", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60 + 6 * (pairs + 1) * limit_seconds(records),
    )
    if ran.returncode:
        raise PeerError(f"the audited client ended with {ran.returncode}: {ran.stderr[-2000:]}")
    found: dict[str, list[tuple[float, float]]] = json.loads(ran.stdout)
    values = {}
    for call, times in found.items():
        values[f"{call}_over_off"] = statistics.median(audited / without for without, audited in times)
        values[f"{call}_ns_per_record"] = statistics.median(without for without, _ in times) / records * 1e9
    return values
