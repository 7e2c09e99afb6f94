"""Chooses the leader of a partition: who may lead, and who does, also in an unclean election (KIP-966)."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from bowstring.engine.controller.partition_index import NO_LEADER
from bowstring.engine.metadata.directory_ids import holds_online, is_online
from bowstring.engine.metadata.image import BrokerImage, PartitionImage


class Election(Enum):
    """Whom to elect.

    PREFERRED: the first replica if it is in sync, else as ONLINE.
    ONLINE: the present leader if it may lead, else the first replica that is in sync, or eligible when none
    is in sync.
    UNCLEAN: as ONLINE, but rather any replica than none.
    """

    PREFERRED = 0
    ONLINE = 1
    UNCLEAN = 2


class Candidates(NamedTuple):
    """The replicas among which the leader is chosen.

    Attributes:
        partition: The partition before the change.
        replicas, in_sync, eligible: The wanted values; `eligible` are the eligible leaders (KIP-966).
        last_known: The last known leader, unless its log is gone.
        directories: Directories of replicas by broker, where they change.
        brokers: The registered brokers.
        is_acceptable: Whether a broker may lead; its directory is checked besides.
    """

    partition: PartitionImage
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]
    last_known: tuple[int, ...]
    directories: dict[int, bytes]
    brokers: dict[int, BrokerImage]
    is_acceptable: Callable[[int], bool]

    def may_lead(self, replica: int) -> bool:
        """Whether a replica is alive and its directory works."""
        if not self.is_acceptable(replica):
            return False
        broker = self.brokers.get(replica)
        if broker is None:
            return False
        if replica in self.partition.replicas:
            found = self.directories.get(replica)  # one that was given up as lost may be found again
            return holds_online(broker, self.partition) or (found is not None and is_online(broker, found))
        return True  # it is being added, and has no directory yet

    def is_clean(self, replica: int) -> bool:
        """Whether a replica may lead, and has all committed records."""
        has_all = replica in self.in_sync or (not self.in_sync and replica in self.eligible)
        return has_all and self.may_lead(replica)


def choose_leader(candidates: Candidates, election: Election) -> tuple[int, bool]:
    """Returns the leader, or NO_LEADER, and whether it may lack committed records."""
    if election is Election.PREFERRED and candidates.is_clean(candidates.replicas[0]):
        return candidates.replicas[0], False
    leader = candidates.partition.leader
    if candidates.is_clean(leader):
        return leader, False
    for replica in candidates.replicas:
        if candidates.is_clean(replica):
            return replica, False
    last_known = candidates.last_known
    if (
        not candidates.eligible
        and not candidates.in_sync
        and len(last_known) == 1
        and candidates.may_lead(last_known[0])
    ):
        return last_known[0], True
    if election is Election.UNCLEAN:
        for replica in candidates.replicas:
            if candidates.may_lead(replica):
                return replica, True
    return NO_LEADER, False
