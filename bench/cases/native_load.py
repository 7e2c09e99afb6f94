"""Runs several native producers together, each a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.cases.produce import limit_seconds
from bench.kreps.loads import Order, ProcessLoad
from bench.lab import RECORD_BYTES
from bench.peers.peer import Peer
from bowstring import Producer

if TYPE_CHECKING:
    import pyarrow as pa

PRODUCERS = 3
BATCH_ROWS = 40_000
CLIENT = "send_arrow of 4 MiB batches, a process for each producer"


@dataclass(frozen=True)
class Together:
    """Producers that began together.

    Attributes:
        records: Of all of them.
        seconds: From the first record until the last producer had its last acknowledgement.
        client_cpu_seconds: Of their processes.
    """

    records: int
    seconds: float
    client_cpu_seconds: float

    @property
    def records_per_second(self) -> float:
        """Acknowledged records of all producers a second."""
        return self.records / self.seconds


def produce_together(
    bootstrap: str, topic: str, records: int, settings: dict[str, str], producers: int = PRODUCERS
) -> Together:
    """Each producer sends `records` records to one topic.

    Args:
        settings: Of the producers, in Java's names.

    Raises:
        PeerError: One failed or was too slow.
    """
    order = Order("produce", bootstrap, topic, records, RECORD_BYTES, settings)
    loads = [ProcessLoad("native", order) for _ in range(producers)]
    try:
        for load in loads:
            load.await_ready()
        for load in loads:
            load.go()
        done = [load.finish(limit_seconds(records * producers)) for load in loads]
    finally:
        for load in loads:
            load.kill()
    total = sum(each.records for each in done)
    return Together(total, max(each.seconds for each in done), sum(each.cpu_seconds for each in done))


def values() -> pa.RecordBatch:
    """Returns BATCH_ROWS records for `send_arrow`."""
    import pyarrow as pa

    return pa.record_batch({"value": pa.array([b"x" * RECORD_BYTES] * BATCH_ROWS, pa.binary())})


def fill(peer: Peer, topic: str, records: int) -> None:
    """Produces `records` records by a producer of this process, without measuring."""
    batch = values()
    with Producer(peer.bootstrap, acks=1) as producer:
        for at in range(0, records, BATCH_ROWS):
            producer.send_arrow(topic, batch.slice(0, min(BATCH_ROWS, records - at)))
        producer.flush()
