"""Computes rates and latencies of acknowledged records and prints them like Kafka's ProducerPerformance."""

from __future__ import annotations

import threading
import time
from typing import Any


class Statistics:
    """Counts acknowledged records and their latencies, as ProducerPerformance's Stats does."""

    def __init__(self, reporting_interval_ms: int, quiet: bool, steady: bool = False):
        self._interval_s = reporting_interval_ms / 1000
        self._quiet = quiet
        self._steady = steady
        self._lock = threading.Lock()
        self.started = self._window_started = time.monotonic()
        self.count = self.bytes = 0
        self.latencies: dict[int, int] = {}
        self._total_ms = self._max_ms = 0.0
        self._window = [0, 0, 0.0, 0.0]  # records, bytes, total latency, max latency

    def note(self, records: int, size_bytes: int, latency_ms: float) -> None:
        """Counts a batch that was acknowledged `latency_ms` after it was sent."""
        with self._lock:
            self.count += records
            self.bytes += size_bytes
            self._total_ms += latency_ms * records
            self._max_ms = max(self._max_ms, latency_ms)
            bucket = int(latency_ms)
            self.latencies[bucket] = self.latencies.get(bucket, 0) + records
            window = self._window
            window[0] += records
            window[1] += size_bytes
            window[2] += latency_ms * records
            window[3] = max(window[3], latency_ms)
            if time.monotonic() - self._window_started >= self._interval_s:
                self._print_window()

    def _print_window(self) -> None:
        now = time.monotonic()
        elapsed = now - self._window_started
        records, size, total, longest = self._window
        self._window = [0, 0, 0.0, 0.0]
        self._window_started = now
        if not self._quiet:
            print(
                f"{records} records sent, {records / elapsed:.1f} records/sec "
                f"({size / elapsed / 2**20:.2f} MB/sec), {total / records:.1f} ms avg latency, "
                f"{longest:.1f} ms max latency.",
                flush=True,
            )

    def percentile(self, share: float) -> int:
        """Returns the latency in ms that this share of the records did not exceed."""
        wanted, seen = int(share * self.count), 0
        for bucket in sorted(self.latencies):
            seen += self.latencies[bucket]
            if seen > wanted:
                return bucket
        return max(self.latencies, default=0)

    def totals(self) -> dict[str, Any]:
        """Returns the figures of the last line."""
        elapsed = time.monotonic() - self.started
        return {
            "records": self.count,
            "records_per_sec": self.count / elapsed,
            "mb_per_sec": self.bytes / elapsed / 2**20,
            "avg_latency_ms": self._total_ms / self.count if self.count else 0.0,
            "max_latency_ms": self._max_ms,
            "p50_ms": self.percentile(0.5),
            "p95_ms": self.percentile(0.95),
            "p99_ms": self.percentile(0.99),
            "p999_ms": self.percentile(0.999),
        }

    def text(self) -> str:
        """Returns the last line."""
        t = self.totals()
        steady = " steady state" if self._steady else ""
        return (
            f"{t['records']}{steady} records sent, {t['records_per_sec']:f} records/sec "
            f"({t['mb_per_sec']:.2f} MB/sec), {t['avg_latency_ms']:.2f} ms avg latency, "
            f"{t['max_latency_ms']:.2f} ms max latency, {t['p50_ms']} ms 50th, {t['p95_ms']} ms 95th, "
            f"{t['p99_ms']} ms 99th, {t['p999_ms']} ms 99.9th."
        )
