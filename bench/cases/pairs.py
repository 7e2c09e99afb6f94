"""Runs the same load on two brokers in turn, pair by pair: one with something that costs, one without."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bench.cases.native_load import BATCH_ROWS, values
from bench.lab import RECORD_BYTES, Lab
from bench.peers.peer import Peer
from bench.procfs import cpu_seconds
from bowstring import Producer

if TYPE_CHECKING:
    import pyarrow as pa

PAIRS_PER_TOPIC = 8


def records_of_a_run(lab: Lab) -> int:
    """Returns how many records a run produces."""
    return lab.size.produce_records // 5


class Pairs:
    """Runs of both brokers, pair by pair; which is first alternates.

    Attributes:
        seconds: Of each run, by broker.
        cpu_seconds: Of the broker, in each run.
    """

    def __init__(self, peers: dict[str, Peer]) -> None:
        self._peers = peers
        self.seconds: dict[str, list[float]] = {name: [] for name in peers}
        self.cpu_seconds: dict[str, list[float]] = {name: [] for name in peers}

    def order(self, pair: int) -> list[str]:
        """Returns the names of both brokers, in the order of that pair."""
        names = list(self._peers)
        return names[::-1] if pair % 2 else names

    def add(self, name: str, seconds: float, used: float) -> None:
        """Adds a run."""
        self.seconds[name].append(seconds)
        self.cpu_seconds[name].append(used)

    def figures(self, verb: str, records: int) -> dict[str, float]:
        """Returns rates, costs, and the shares of the broker with rules."""
        found: dict[str, float] = {}
        for name in self._peers:
            rate = records / statistics.median(self.seconds[name])
            cost = statistics.median(self.cpu_seconds[name]) / (records * RECORD_BYTES / 1e9)
            found |= {f"{name}_{verb}_records_per_second": rate, f"{name}_{verb}_cpu_seconds_per_gb": cost}
        pairs = zip(self.seconds["off"], self.seconds["on"], strict=True)
        found[f"{verb}_share"] = statistics.median(off / on for off, on in pairs)
        pairs = zip(self.cpu_seconds["off"], self.cpu_seconds["on"], strict=True)
        found[f"{verb}_cpu_over_off"] = statistics.median(on / off for off, on in pairs)
        return found


def produced(
    lab: Lab,
    peers: dict[str, Peer],
    batch: pa.RecordBatch | None = None,
    configs: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, float]:
    """Produces to both by one client, in turn.

    Args:
        batch: BATCH_ROWS records; None: `values()`.
        configs: of the topics, by name of the peer.
    """
    records = records_of_a_run(lab)
    batch = values() if batch is None else batch
    runs = Pairs(peers)
    producers = {name: Producer(peer.bootstrap, acks=1) for name, peer in peers.items()}
    topics: dict[str, str] = {}
    for pair in range(-1, lab.size.access_pairs):  # the first one warms up
        if pair % PAIRS_PER_TOPIC == 0 or not topics:
            topics = new_topics(lab, peers, topics, configs=configs)
            for name, topic in topics.items():
                producers[name].partitions_for(topic)
        for name in runs.order(pair):
            pid = peers[name].pid
            before, began = cpu_seconds(pid), time.perf_counter()
            for at in range(0, records, BATCH_ROWS):
                producers[name].send_arrow(topics[name], batch.slice(0, min(BATCH_ROWS, records - at)))
            producers[name].flush()
            seconds = time.perf_counter() - began
            if pair >= 0:
                runs.add(name, seconds, cpu_seconds(pid) - before)
    for producer in producers.values():
        producer.close()
    new_topics(lab, {}, topics, peers)
    return runs.figures("produce", records)


def new_topics(
    lab: Lab,
    peers: dict[str, Peer],
    old: dict[str, str],
    of: dict[str, Peer] | None = None,
    configs: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """Creates a topic on each broker, and deletes the old ones."""
    for name, topic in old.items():
        lab.delete_topic((of or peers)[name], topic)
    return {name: lab.new_topic(peer, configs=(configs or {}).get(name)) for name, peer in peers.items()}
