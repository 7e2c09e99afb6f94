"""Where a record goes when its sender did not say: murmur2 of the key, or one partition at a time.

Keys land where Kafka's Java producer puts them, so that programs in both languages may share a topic.
Records without a key stick to one partition until a batch's worth of bytes has gone there (KIP-794).
"""

from __future__ import annotations

import random

from bowstring._native.client import murmur2


class Partitioner:
    """Picks partitions for one topic. Not thread-safe: the producer calls it under its lock.

    Args:
        sticky_bytes: bytes without a key that go to one partition before the next is chosen.
    """

    def __init__(self, sticky_bytes: int, rng: random.Random | None = None):
        self._sticky_bytes = max(1, sticky_bytes)
        self._rng = rng or random.Random()
        self._sticky = -1
        self._bytes = 0

    def for_key(self, key: bytes, partition_count: int) -> int:
        """The partition that Kafka's DefaultPartitioner gives `key`."""
        return (murmur2(key) & 0x7FFFFFFF) % partition_count

    def for_null_key(self, available: list[int], size_bytes: int) -> int:
        """The sticky partition for a record of `size_bytes`; `available` are those with a leader."""
        if self._bytes >= self._sticky_bytes or self._sticky not in available:
            self._bytes = 0
            others = [partition for partition in available if partition != self._sticky]
            self._sticky = self._rng.choice(others or available)
        self._bytes += size_bytes
        return self._sticky
