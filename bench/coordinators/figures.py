"""Computes what the loads report."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.procfs import cpu_seconds


def percentile_ms(sorted_seconds: Sequence[float], fraction: float) -> float:
    """Returns a percentile of sorted seconds in milliseconds; 0 when there are none."""
    if not sorted_seconds:
        return 0.0
    return sorted_seconds[min(len(sorted_seconds) - 1, int(fraction * len(sorted_seconds)))] * 1000


def latencies_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Returns p50, p99, p99.9 and the maximum."""
    found = sorted(seconds)
    return {
        "p50_ms": percentile_ms(found, 0.5),
        "p99_ms": percentile_ms(found, 0.99),
        "p999_ms": percentile_ms(found, 0.999),
        "max_ms": percentile_ms(found, 1.0),
    }


class Span:
    """Processor seconds of the broker and wall seconds since it was made.

    Args:
        pid: The broker's process.
    """

    def __init__(self, pid: int):
        self._pid = pid
        self._cpu = cpu_seconds(pid)
        self._own = time.process_time()
        self._began = time.monotonic()

    def figures(self) -> dict[str, float]:
        """Returns `seconds`, `cpu_seconds`, `cpu_percent` of a core, and `load_cpu_seconds` of the load."""
        seconds = time.monotonic() - self._began
        used = cpu_seconds(self._pid) - self._cpu
        return {
            "seconds": seconds,
            "cpu_seconds": used,
            "cpu_percent": 100 * used / seconds,
            "load_cpu_seconds": time.process_time() - self._own,
        }
