"""Runs several native producers together, each a process of its own."""

from __future__ import annotations

from dataclasses import dataclass

from bench.cases.produce import limit_seconds
from bench.kreps.loads import Order, ProcessLoad
from bench.lab import RECORD_BYTES

PRODUCERS = 3
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
