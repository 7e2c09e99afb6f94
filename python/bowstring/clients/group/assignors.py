"""Assigns partitions to members of a classic group: pure functions of their subscriptions.

Names and results are Kafka's. `range` assigns consecutive partitions of each topic. `cooperative-sticky`
(KIP-429) balances all topics together, moves as few partitions as balance allows, and never assigns a
partition to a new owner before the old one has revoked it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from bowstring.clients.records import TopicPartition

Assignment = dict[str, list[TopicPartition]]


class Subscription(NamedTuple):
    """The subscription that one member sent when it joined."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    group_instance_id: str | None = None


class Assignor(Protocol):
    """A strategy of assignment."""

    name: str
    cooperative: bool

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """Returns partitions by member id; includes every member, with an empty list when it gets none."""


class RangeAssignor:
    """Assigns consecutive partitions of each topic; the first members get one more when the division has a
    rest.
    """

    name = "range"
    cooperative = False

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """See Assignor."""
        given: Assignment = {member: [] for member in members}
        for topic, partition_count in partition_counts.items():
            takers = sorted(
                (member for member, told in members.items() if topic in told.topics),
                key=lambda member: _member_order(member, members[member]),
            )
            if not takers:
                continue
            share, longer = divmod(partition_count, len(takers))
            start = 0
            for rank, member in enumerate(takers):
                end = start + share + (1 if rank < longer else 0)
                given[member] += [TopicPartition(topic, partition) for partition in range(start, end)]
                start = end
        return given


def _member_order(member: str, told: Subscription) -> tuple[int, str]:
    """Sorts static members first, by instance id, so that a restart does not change the assignment
    (KIP-345).
    """
    return (0, told.group_instance_id) if told.group_instance_id is not None else (1, member)


class CooperativeStickyAssignor:
    """Balances over all topics with as few moves as possible (KIP-54), in two steps (KIP-429)."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """See Assignor."""
        owners = _current_owners(partition_counts, members)
        given: Assignment = {member: [] for member in members}
        for partition, member in owners.items():
            given[member].append(partition)
        for partition in _all_partitions(partition_counts):
            if partition not in owners:
                takers = [member for member, told in members.items() if partition.topic in told.topics]
                if takers:
                    taker = min(takers, key=lambda member: (len(given[member]), member))
                    given[taker].append(partition)
        _balance(given, members, owners)
        # A partition that changes its owner is assigned only after the old owner has revoked it and rejoined.
        return {
            member: sorted(p for p in partitions if owners.get(p, member) == member)
            for member, partitions in given.items()
        }


def _all_partitions(partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in sorted(partition_counts)
        for partition in range(partition_counts[topic])
    ]


def _current_owners(
    partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
) -> dict[TopicPartition, str]:
    """Returns the owner of each partition. If two members claim one, the newer generation wins; with equal
    generations neither does.
    """
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, told in members.items():
        for partition in told.owned:
            exists = partition.partition < partition_counts.get(partition.topic, 0)
            if not exists or partition.topic not in told.topics:
                continue
            generation, _ = claims.get(partition, (-2, None))
            if told.generation > generation:
                claims[partition] = (told.generation, member)
            elif told.generation == generation:
                claims[partition] = (generation, None)
    return {partition: member for partition, (_, member) in claims.items() if member is not None}


def _balance(
    given: Assignment, members: Mapping[str, Subscription], owners: Mapping[TopicPartition, str]
) -> None:
    """Moves partitions, those without an owner first, until no move improves the balance."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(given, key=lambda member: (-len(given[member]), member)):
            for taker in sorted(given, key=lambda member: (len(given[member]), member)):
                if len(given[giver]) - len(given[taker]) < 2:
                    break
                movable = [p for p in given[giver] if p.topic in members[taker].topics]
                if movable:
                    best = min(movable, key=lambda p: (owners.get(p) == giver, owners.get(p) != taker, p))
                    given[giver].remove(best)
                    given[taker].append(best)
                    moved = True
                    break


ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor for assignor in (RangeAssignor(), CooperativeStickyAssignor())
}
