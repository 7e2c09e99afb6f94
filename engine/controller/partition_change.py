"""Builds the record that changes a partition: its leader, ISR, eligible leaders, reassignments.

Follows Kafka's PartitionChangeBuilder and KIP-966. All changes of existing partitions are made here, so that
the rules about leader epochs and eligible leaders hold for each of them. `leader_choice` says who leads.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from bowstring.engine.controller.leader_choice import Candidates, Election, choose_leader
from bowstring.engine.controller.partition_index import NO_LEADER, PartitionKey
from bowstring.engine.controller.reassignment import completed
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.directory_ids import LOST, default_directory, is_online, is_reserved
from bowstring.engine.metadata.features import DIRECTORIES_SINCE, LEADER_EPOCH_STAYS_SINCE
from bowstring.engine.metadata.image import BrokerImage, PartitionImage
from bowstring.protocol.records.cluster_metadata.topics import PartitionChangeRecord

RECOVERED: Final = 0
RECOVERING: Final = 1

_NO_CHANGE: Final = -2
_RECOVERY_UNCHANGED: Final = -1


class Rules(NamedTuple):
    """The inputs of a change besides the partition.

    Attributes:
        brokers: The registered brokers.
        is_acceptable: Whether a broker may lead; its directory is checked besides.
        metadata_version: The finalized level.
        eligible_leaders: Whether partitions have eligible leader replicas.
    """

    brokers: dict[int, BrokerImage]
    is_acceptable: Callable[[int], bool]
    metadata_version: int
    eligible_leaders: bool

    @classmethod
    def of(cls, state: ControllerState, is_acceptable: Callable[[int], bool] | None = None) -> "Rules":
        """Returns the rules in force; active brokers may lead unless `is_acceptable` says otherwise."""
        brokers = state.image.brokers
        if is_acceptable is None:
            active = {each.id for each in brokers.values() if each.is_active}
            is_acceptable = active.__contains__
        return cls(brokers, is_acceptable, state.metadata_version, state.has_eligible_leaders)


class PartitionChange:
    """A change of one partition. Set the wanted fields, then `build`.

    Attributes:
        election: The candidates if the leader may not continue.
        in_sync, replicas, adding, removing, recovery_state: The wanted values; at first the present ones.
        unclean_shutdown: Replicas that may have lost records, and are no eligible leaders.
        directories: Directories of replicas by broker, where they change.
    """

    __slots__ = (
        "_eligible",
        "_key",
        "_min_in_sync",
        "_partition",
        "_rules",
        "adding",
        "directories",
        "election",
        "in_sync",
        "recovery_state",
        "removing",
        "replicas",
        "unclean_shutdown",
    )

    def __init__(self, key: PartitionKey, partition: PartitionImage, rules: Rules, min_in_sync: int) -> None:
        self._key = key
        self._partition = partition
        self._rules = rules
        self._min_in_sync = min_in_sync
        self._eligible = partition.eligible_leaders
        self.election = Election.ONLINE
        self.in_sync: tuple[int, ...] = partition.in_sync
        self.replicas: tuple[int, ...] = partition.replicas
        self.adding: tuple[int, ...] = partition.adding
        self.removing: tuple[int, ...] = partition.removing
        self.recovery_state = partition.leader_recovery_state
        self.unclean_shutdown: Collection[int] = ()
        self.directories: dict[int, bytes] = {}

    def build(self) -> PartitionChangeRecord | None:
        """Returns the record; None when nothing changes."""
        partition, rules = self._partition, self._rules
        record = PartitionChangeRecord(topic_id=self._key[0], partition_id=self._key[1])
        if self.adding or self.removing:
            self._complete_reassignment()
        if rules.eligible_leaders:
            self._update_eligible()
        unclean = self._elect(record)
        if record.leader == _NO_CHANGE and not set(partition.replicas) <= set(self.replicas):
            record.leader = partition.leader  # removed replicas must learn of a new leader epoch
        if unclean or not rules.eligible_leaders:
            self._eligible = ()
        if self._eligible != partition.eligible_leaders:
            record.eligible_leader_replicas = list(self._eligible)
        # Without eligible leaders, the last replica stays in the ISR of a partition without a leader.
        if not unclean and self.in_sync != partition.in_sync and (self.in_sync or rules.eligible_leaders):
            record.isr = list(self.in_sync)
        self._bump_for_shrink(record)
        self._update_last_known_leader(record)
        self._set_assignment(record)
        if self.recovery_state != partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if _is_empty(record) else record

    def _complete_reassignment(self) -> None:
        done = completed(self.replicas, self.in_sync, self.adding, self.removing)
        if done is not None:
            self.replicas, self.in_sync = done
            self.adding = self.removing = ()

    def _update_eligible(self) -> None:
        """Keeps those that leave an ISR below the minimum as eligible: nothing has been committed without
        them.
        """
        # Kafka takes the number of replicas of partition 0 before the change, and keeps removed replicas.
        if len(self.in_sync) >= min(self._min_in_sync, len(self.replicas)):
            self._eligible = ()
            return
        candidates = dict.fromkeys((*self._eligible, *self._partition.in_sync))
        self._eligible = tuple(
            each
            for each in candidates
            if each in self.replicas and each not in self.in_sync and each not in self.unclean_shutdown
        )

    # ------------------------------------------------------------ election

    def _elect(self, record: PartitionChangeRecord) -> bool:
        """Sets the leader if it changes; returns whether the election is unclean."""
        rules = self._rules
        candidates = Candidates(
            *(self._partition, self.replicas, self.in_sync, self._eligible),
            last_known=self._last_known() if rules.eligible_leaders else (),
            directories=self.directories,
            brokers=rules.brokers,
            is_acceptable=rules.is_acceptable,
        )
        leader, unclean = choose_leader(candidates, self.election)
        if leader == self._partition.leader:
            return False
        record.leader = leader
        if leader in self._eligible:
            self.in_sync = (leader,)
            # With a minimum of one it commits alone, and the others are eligible no longer.
            left = self._eligible if min(self._min_in_sync, len(self.replicas)) > 1 else ()
            self._eligible = tuple(each for each in left if each != leader)
        elif unclean:
            record.isr = [leader]
            if self._partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        return unclean

    # ------------------------------------------------------------ the rest of the record

    def _bump_for_shrink(self, record: PartitionChangeRecord) -> None:
        if (
            self._rules.metadata_version < LEADER_EPOCH_STAYS_SINCE
            and record.leader == _NO_CHANGE
            and record.isr is not None
            and not set(self._partition.in_sync) <= set(record.isr)
        ):
            record.leader = self._partition.leader

    def _update_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self._rules.eligible_leaders:
            return
        last_known = self._partition.last_known_leaders
        if record.leader == NO_LEADER and not last_known and self._partition.leader != NO_LEADER:
            record.last_known_elr = [self._partition.leader]
        elif last_known and (record.leader >= 0 or not self._last_known()):
            record.last_known_elr = []
        elif not last_known and record.leader < 0 and not self.in_sync and not self._eligible:
            # Eligible leaders appeared while it had no leader. Kafka elects none then, and the partition
            # stays without.
            last = [*self._partition.in_sync, *self._partition.eligible_leaders]
            record.last_known_elr = [each for each in last if self._may_be_last_known(each)][:1] or None

    def _last_known(self) -> tuple[int, ...]:
        """Returns the last known leader, unless its log is gone: its broker reports so (LOST), or names
        another directory than the one that the replica was in, which it has no more. Kafka elects it,
        although others may have the records.
        """
        return tuple(each for each in self._partition.last_known_leaders if not self._has_lost(each))

    def _may_be_last_known(self, replica: int) -> bool:
        return replica in self.replicas and not self._has_lost(replica)

    def _has_lost(self, replica: int) -> bool:
        partition, broker = self._partition, self._rules.brokers.get(replica)
        if replica not in self.directories or replica not in partition.replicas or not partition.directories:
            return False
        before, now = partition.directories[partition.replicas.index(replica)], self.directories[replica]
        if now == LOST:
            return True
        # LOST before is no sign: a replica without service for a while is given up so, and comes back whole.
        is_other = before != now and not is_reserved(before)
        return broker is not None and is_other and not is_online(broker, before)

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        partition = self._partition
        same_replicas = self.replicas == partition.replicas
        if self._rules.metadata_version >= DIRECTORIES_SINCE and not (
            same_replicas and not self.directories and len(partition.directories) == len(partition.replicas)
        ):
            present = dict(zip(partition.replicas, partition.directories, strict=False)) | self.directories
            brokers = self._rules.brokers
            directories = [
                present[each] if each in present else default_directory(brokers.get(each))
                for each in self.replicas
            ]
            if directories != list(partition.directories):
                record.directories = directories
        if not same_replicas:
            record.replicas = list(self.replicas)
        if self.removing != partition.removing:
            record.removing_replicas = list(self.removing)
        if self.adding != partition.adding:
            record.adding_replicas = list(self.adding)


def _is_empty(record: PartitionChangeRecord) -> bool:
    unset: Sequence[object] = (
        record.isr,
        record.eligible_leader_replicas,
        record.last_known_elr,
        record.replicas,
        record.removing_replicas,
        record.adding_replicas,
        record.directories,
    )
    return (
        record.leader == _NO_CHANGE
        and record.leader_recovery_state == _RECOVERY_UNCHANGED
        and all(each is None for each in unset)
    )
