"""Holds a streams group: members, topology, epochs, target assignment, and the holder of each task."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from bowstring.engine.coordinators.effects import Record
from bowstring.engine.groups.group import PartitionCheck
from bowstring.engine.groups.modern.group import ModernGroup
from bowstring.engine.groups.streams import records
from bowstring.engine.groups.streams.configured_topology import ConfiguredTopology
from bowstring.engine.groups.streams.member import StreamsMember
from bowstring.engine.groups.streams.task_offsets import TaskOffsets
from bowstring.engine.groups.streams.tasks import NO_TASKS, CurrentTasks, TaskId, Tasks, flat
from bowstring.engine.groups.streams.topology import Topology
from bowstring.protocol.errors import Error, Errors

MEMBER_EPOCH_VERSION: Final = 9
"""The version of OffsetCommit that members must use."""
NOT_VALIDATED: Final = -1
"""Topology epoch of a group whose topics do not fit its topology yet."""


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """A group of Kafka Streams members.

    Attributes:
        validated_topology_epoch: Epoch of the topology once its topics fit it.
        assignment_configs: Configs with which the group epoch was last raised.
        configured: The topology applied to the present topics; None after a start.
        configured_version: The cluster's version of topics with which that was last compared.
        is_delayed: Whether the first assignment waits for more members.
        shutdown_member_id: The member that requested the shutdown of all members.
        endpoint_epoch: Rises when tasks of a member with an endpoint for interactive queries change.
        rebalance_epochs: Epochs of members that must give up tasks in time, by member id.
        static_members: Member id by instance id.
        offsets: The offsets of members' tasks in their last heartbeats, by member id; not in the log.
    """

    group_type = "streams"
    protocol_type = "streams"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = NOT_VALIDATED
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.configured: ConfiguredTopology | None = None
        self.configured_version = -1
        self.is_delayed = False
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0
        self.rebalance_epochs: dict[str, int] = {}
        self.static_members: dict[str, str] = {}
        self.offsets: dict[str, TaskOffsets] = {}
        self._active: dict[TaskId, str] = {}
        # by process, subtopology and partition: standby and warm-up copies
        self._copies: Counter[tuple[str, str, int]] = Counter()

    # ---- questions

    @property
    def state(self) -> str:
        """The state's name, as in ListGroups."""
        fits = self.topology is not None and self.topology.epoch == self.validated_topology_epoch
        return super().state if fits or not self.members else "NotReady"

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """Returns the member with an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str) -> Tasks:
        """Returns the target assignment of a member."""
        return self.target.get(member_id, NO_TASKS)

    def facts(self) -> records.GroupFacts:
        """Returns the fields of the group's own record."""
        return records.GroupFacts(
            self.epoch, self.metadata_hash, self.validated_topology_epoch, self.assignment_configs
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topology reads `topic` and the group has members."""
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    # ---- holders of tasks

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Returns the process that has an active task, even if it must give it up."""
        return self._active.get((subtopology_id, partition))

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Returns whether a process has a standby or warm-up copy of a task."""
        return (process_id, subtopology_id, partition) in self._copies

    def _hold(self, member: StreamsMember) -> None:
        for tasks in (member.tasks, member.revoked):
            self._active.update(dict.fromkeys(flat(tasks.active), member.process_id))
            self._copies.update(_copies(member.process_id, tasks))

    def _release(self, member: StreamsMember) -> None:
        for tasks in (member.tasks, member.revoked):
            for task in flat(tasks.active):
                if self._active.get(task) == member.process_id:
                    del self._active[task]
            for copy in _copies(member.process_id, tasks):
                self._copies[copy] -= 1
                if self._copies[copy] <= 0:
                    del self._copies[copy]

    # ---- checks

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
        api_version: int = MEMBER_EPOCH_VERSION,
    ) -> Error:
        """Allows members, and anyone while there is none; `partition_check` does the rest when the member
        epoch is old.
        """
        if generation < 0 and not self.members:
            return Errors.NONE
        if transactional and generation < 0 and not member_id and instance_id is None:
            return Errors.NONE
        member = self.members.get(member_id)
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        if not transactional and api_version < MEMBER_EPOCH_VERSION:
            return Errors.UNSUPPORTED_VERSION
        return Errors.STALE_MEMBER_EPOCH if generation > member.member_epoch else Errors.NONE

    def partition_check(self, member_id: str, generation: int) -> PartitionCheck | None:
        """Returns a check of single partitions, by topic name and id, for a commit that `check_offset_commit`
        allows; None if all may be committed.

        An old member epoch is allowed for a task that the member has had since then or longer.
        """
        member = self.members.get(member_id)
        if member is None or generation == member.member_epoch:
            return None

        def check(topic: str, topic_id: bytes, partition: int) -> Error:
            subtopology_id = None if self.topology is None else self.topology.subtopology_of.get(topic)
            for tasks in (member.tasks, member.revoked):
                epoch = tasks.active.get(subtopology_id or "", {}).get(partition)
                if epoch is not None:
                    return Errors.STALE_MEMBER_EPOCH if generation < epoch else Errors.NONE
            return Errors.STALE_MEMBER_EPOCH

        return check

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> Error:
        """Allows members with their present epoch, and admin clients."""
        if member_id is None and member_epoch < 0:
            return Errors.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        return Errors.NONE if member_epoch == member.member_epoch else Errors.STALE_MEMBER_EPOCH

    def tombstones(self) -> list[Record]:
        """Returns the records that delete the group, which has no members."""
        return records.group_tombstones(self.group_id)

    # ---- changes

    def _member_changed(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        super()._member_changed(old, new)
        if old is not None:
            self._release(old)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
        if new is not None:
            self._hold(new)
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id
        elif old is not None:
            self.rebalance_epochs.pop(old.member_id, None)
            self.offsets.pop(old.member_id, None)
            if not self.members:
                self.shutdown_member_id = None

    def set_facts(self, facts: records.GroupFacts) -> None:
        """Applies the group's own record."""
        self.epoch = facts.epoch
        self.metadata_hash = facts.metadata_hash
        self.validated_topology_epoch = facts.validated_topology_epoch
        self.assignment_configs = facts.assignment_configs

    def set_configured(self, configured: ConfiguredTopology, version: int) -> None:
        """Sets the topology as applied to the present topics."""
        self.configured = configured
        self.configured_version = version


def _copies(process_id: str, tasks: CurrentTasks) -> Iterable[tuple[str, str, int]]:
    for role in (tasks.standby, tasks.warmup):
        for subtopology_id, partition in flat(role):
            yield process_id, subtopology_id, partition
