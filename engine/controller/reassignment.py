"""Computes the steps of a reassignment: from the present replicas to the wanted ones, and back (KIP-455)."""

from collections.abc import Sequence
from typing import NamedTuple

from bowstring.engine.metadata.image import PartitionImage


class Step(NamedTuple):
    """The replicas while a reassignment is under way: the wanted ones, then those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def first_step(partition: PartitionImage, wanted: Sequence[int]) -> Step:
    """Returns the replicas until the new ones are in sync."""
    removing = tuple(sorted(set(partition.replicas) - set(wanted)))
    # What another reassignment was adding has still to get in sync.
    adding = tuple(sorted(set(wanted) - (set(partition.replicas) - set(partition.adding))))
    return Step((*wanted, *removing), adding, removing)


def completed(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Returns replicas and ISR after a reassignment; None while it cannot end."""
    new_replicas = tuple(each for each in replicas if each not in removing)
    new_in_sync = tuple(each for each in in_sync if each not in removing)
    if not new_in_sync or not new_replicas or not set(adding) <= set(new_in_sync):
        return None
    # A smaller replication factor waits for all that stay: ending now would only shrink the ISR.
    if len(adding) < len(removing) and not set(new_replicas) <= set(new_in_sync):
        return None
    return new_replicas, new_in_sync


def reverted(partition: PartitionImage) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Returns replicas and ISR as before a reassignment, and whether that may lose committed records: when
    only new replicas are in sync.
    """
    replicas = tuple(each for each in partition.replicas if each not in partition.adding)
    in_sync = tuple(each for each in partition.in_sync if each not in partition.adding)
    assert replicas, "a reassignment replaced all replicas, and none of the old ones is left"
    return (replicas, in_sync, False) if in_sync else (replicas, replicas[:1], True)


def is_under_way(partition: PartitionImage) -> bool:
    """Returns whether a partition is being reassigned."""
    return bool(partition.adding or partition.removing)


def target_size(partition: PartitionImage) -> int:
    """Returns the replication factor once the present reassignment has ended."""
    return len(set(partition.replicas) | set(partition.adding)) - len(partition.removing)
