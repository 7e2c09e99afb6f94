"""Finds unreachable replicas of a partition."""

from collections.abc import Set
from typing import TYPE_CHECKING

from bowstring.engine.metadata.image import PartitionImage

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata


def reachable_brokers(metadata: "Metadata") -> frozenset[int]:
    """Returns the ids of brokers that are registered and not fenced."""
    return frozenset(each.id for each in metadata.image.brokers.values() if not each.fenced)


def offline_replicas(
    partition: PartitionImage, reachable: Set[int], *, node_id: int, has_log: bool
) -> list[int]:
    """Returns the replicas of unreachable brokers, and this broker's if it has no log of the partition."""
    return [each for each in partition.replicas if each not in reachable or (each == node_id and not has_log)]
