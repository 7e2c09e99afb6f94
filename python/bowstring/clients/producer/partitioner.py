"""Chooses partitions for records without one, under the partitioner names of Kafka's clients.

Keys land where Kafka's Java producer puts them, so that programs in both languages may share a topic.
Records without a key stick to one partition until a batch's worth of bytes has gone there (KIP-794).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bowstring.clients.errors import ConfigError

# (key, all partitions, those with a leader) → partition.
CustomPartitioner = Callable[[bytes | None, list[int], list[int]], int]

# The numbers of _native/client/partitioner.pxd.
_MURMUR2, _CRC32, _FNV1A, _IGNORED = range(4)
_STICKY, _RANDOM, _ROUND_ROBIN, _HASHED = range(4)


class PartitionRule(NamedTuple):
    """How keys are hashed, and how records without a key are placed."""

    key_rule: int
    null_rule: int
    empty_is_null: bool = False

    @property
    def is_sticky(self) -> bool:
        """Whether records without a key stick to one partition for a while."""
        return self.null_rule == _STICKY


DEFAULT = PartitionRule(_MURMUR2, _STICKY)
PARTITIONERS = {
    "default": DEFAULT,
    "murmur2_random": DEFAULT,
    "murmur2": PartitionRule(_MURMUR2, _HASHED),
    "consistent_random": PartitionRule(_CRC32, _STICKY, True),
    "consistent": PartitionRule(_CRC32, _HASHED),
    "fnv1a_random": PartitionRule(_FNV1A, _STICKY),
    "fnv1a": PartitionRule(_FNV1A, _HASHED),
    "uniform_sticky": PartitionRule(_IGNORED, _STICKY),
    "round_robin": PartitionRule(_IGNORED, _ROUND_ROBIN),
    "random": PartitionRule(_IGNORED, _RANDOM),
}
# Java's classes, by the last part of their names.
_JAVA_NAMES = {
    "DefaultPartitioner": "default",
    "UniformStickyPartitioner": "uniform_sticky",
    "RoundRobinPartitioner": "round_robin",
}


def plain_name(name: str) -> str:
    """Our name of a partitioner, also for one of Java's classes."""
    return _JAVA_NAMES.get(name.rsplit(".", 1)[-1], name)


def partition_rule(name: str) -> PartitionRule:
    """The rule of a name: librdkafka's (`murmur2_random`, `consistent`, …) or one of Java's classes.

    Raises:
        ConfigError: there is none of this name.
    """
    plain = plain_name(name)
    if plain not in PARTITIONERS:
        raise ConfigError(
            f"partitioner is {name!r}, it must be a function (key, partitions, available) -> partition "
            f"or one of {', '.join(PARTITIONERS)}"
        )
    return PARTITIONERS[plain]
