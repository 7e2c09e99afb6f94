"""A producer's counters under the names of Java's producer metrics (group `producer-metrics`)."""

from __future__ import annotations

import time
from collections import deque

from bowstring._native.client.produce_requests import SendCounters
from bowstring.clients.producer.batches import ProduceBatch

# Rates are over the last half minute, as Java's are.
SAMPLE_S = 5.0
SAMPLES = 7

_RATES = (
    "record-send",
    "byte",
    "request",
    "record-error",
    "record-retry",
)


class ProducerMetrics(SendCounters):
    """Counters of one producer. Written by its sender thread; each read returns a recent value."""

    def __init__(self) -> None:
        self.errors = 0
        self.retries = 0
        self.splits = 0
        self._samples: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=SAMPLES)
        self.sample(time.monotonic())

    def _totals(self) -> tuple[int, ...]:
        return (self.records, self.batch_bytes, self.requests, self.errors, self.retries)

    def sample(self, now: float) -> None:
        """Notes the totals from which rates are computed."""
        self._samples.append((now, self._totals()))
        self.sample_at = now + SAMPLE_S

    def failed(self, batch: ProduceBatch) -> None:
        """Counts a batch that could not be delivered."""
        self.errors += batch.record_count

    def report(self, now: float) -> dict[str, float]:
        """Values by the names of Java's metrics; times in milliseconds, sizes in bytes, rates per second."""
        batches, requests = max(1, self.batches), max(1, self.requests)
        found: dict[str, float] = {
            "batch-size-avg": self.batch_bytes / batches,
            "batch-size-max": self.batch_bytes_max,
            "batch-split-total": self.splits,
            "compression-rate-avg": self.batch_bytes / self.plain_bytes if self.plain_bytes else 1.0,
            "record-queue-time-avg": 1000 * self.queue_s / max(1, self.records),
            "record-queue-time-max": 1000 * self.queue_max_s,
            "records-per-request-avg": self.records / requests,
            "request-latency-avg": 1000 * self.latency_s / max(1, self.answers),
            "request-latency-max": 1000 * self.latency_max_s,
        }
        began, before = self._samples[0]
        elapsed_s = max(1e-3, now - began)
        for name, total, first in zip(_RATES, self._totals(), before, strict=True):
            found[f"{name}-total"] = total
            found[f"{name}-rate"] = (total - first) / elapsed_s
        return found
