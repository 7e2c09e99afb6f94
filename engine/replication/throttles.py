"""Reads the configs of replication quotas (KIP-73) for one broker; pure."""

from collections.abc import Sequence
from typing import Final

_UNLIMITED: Final = (1 << 63) - 1


def rate_limit(rate: int) -> int | None:
    """Returns a `*.replication.throttled.rate` in bytes per second; None when it is unset: no limit."""
    return None if rate >= _UNLIMITED else rate


def is_throttled(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Returns whether a `*.replication.throttled.replicas` names the replica of a partition on a broker.

    Args:
        replicas: The items of the list: `*` for all, or `partition:broker` pairs.
    """
    return "*" in replicas or f"{partition}:{broker_id}" in replicas
