"""Decides how a partition is: which replicas it lacks, and what the next loss would do."""

from __future__ import annotations

from bowstring.clients.records import PartitionInfo

OFFLINE = "offline"
UNDER_MIN_ISR = "under min ISR"
AT_MIN_ISR = "at min ISR"
UNDER_REPLICATED = "under-replicated"
STATES = (OFFLINE, UNDER_MIN_ISR, AT_MIN_ISR, UNDER_REPLICATED)
MIN_ISR = "min.insync.replicas"


def state_of(partition: PartitionInfo, min_isr: int) -> str | None:
    """Returns the worst problem of a partition; None if all replicas are in sync.

    `at min ISR`: the loss of one more replica ends writes with acks=all. As in Kafka, a partition never needs
    more replicas in sync than it has (KIP-966).
    """
    if partition.leader < 0:
        return OFFLINE
    needed = min(min_isr, len(partition.replicas))
    if len(partition.isr) < needed:
        return UNDER_MIN_ISR
    if len(partition.isr) >= len(partition.replicas):
        return None
    return AT_MIN_ISR if len(partition.isr) == needed else UNDER_REPLICATED
