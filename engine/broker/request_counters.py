"""Counts the requests of one API, with the same buckets as the reactors."""

from typing import Final

LATENCY_BUCKETS: Final = 28
"""Number of buckets. Bucket i counts requests answered in less than 2**i microseconds; the last bucket counts
all others.
"""

EXPORTED_BUCKETS: Final = range(6, 26, 2)
"""The buckets whose bounds metrics have, in powers of four from 64 microseconds to 17 seconds: a scrape has a
line for each of them and each API.
"""


class RequestCounters:
    """Requests, errors and latencies of one API since the broker started."""

    __slots__ = ("buckets", "errors", "requests", "total_us")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.total_us = 0
        self.buckets = [0] * LATENCY_BUCKETS

    def count(self, elapsed_ns: int, *, failed: bool = False) -> None:
        """Counts one answered request."""
        elapsed_us = elapsed_ns // 1000
        self.requests += 1
        self.errors += failed
        self.total_us += elapsed_us
        self.buckets[min(elapsed_us.bit_length(), LATENCY_BUCKETS - 1)] += 1
