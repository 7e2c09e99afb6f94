"""Moves a member from the tasks that it has towards its target assignment (KIP-1071).

First the member gives up tasks, then it gets those that nobody holds. An active task is free when no member
has it and the member's own process has no copy of it; a standby or warm-up task when the process has no copy.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from bowstring.engine.groups.streams.member import MemberState, StreamsMember
from bowstring.engine.groups.streams.tasks import NO_CURRENT_TASKS, CurrentTasks, Tasks, TaskSet, overlap


class FencedEpoch(Exception):
    """The member must abandon its tasks and join again."""


class Holders(Protocol):
    """Tells which processes hold a task now, revoked tasks included."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Process that has the active task."""

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether a process has a standby or warm-up copy."""


class Target(NamedTuple):
    """A member's target assignment and its epoch."""

    epoch: int
    tasks: Tasks


def reconcile(member: StreamsMember, target: Target, holders: Holders, owned: Tasks | None) -> StreamsMember:
    """Returns the member with its next assignment; the same object when nothing changes yet.

    Args:
        owned: What the member says that it owns; None when it does not say.

    Raises:
        FencedEpoch: The member's state is unknown and it still owns tasks.
    """
    if member.state is MemberState.STABLE:
        if member.member_epoch == target.epoch:
            return member
        epoch = member.member_epoch
    elif member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or _owns_any(owned, member.revoked):
            return member
        epoch = member.member_epoch + 1
    elif member.state is MemberState.UNRELEASED_TASKS:
        epoch = member.member_epoch
    else:
        if owned is None or not owned.is_empty:
            raise FencedEpoch(
                "The streams group member is in a unknown state. The member must abandon all its tasks and "
                "rejoin."
            )
        epoch = target.epoch
    changed = _next(member, target, holders, owned, epoch)
    return member if changed == member else changed


def _owns_any(owned: Tasks, tasks: CurrentTasks) -> bool:
    return (
        overlap(owned.active, tasks.active)
        or overlap(owned.standby, tasks.standby)
        or overlap(owned.warmup, tasks.warmup)
    )


def _next(
    member: StreamsMember, target: Target, holders: Holders, owned: Tasks | None, epoch: int
) -> StreamsMember:
    process_id = member.process_id

    def active_is_held(subtopology_id: str, partition: int) -> bool:
        return holders.active_process(subtopology_id, partition) is not None or holders.has_copy(
            process_id, subtopology_id, partition
        )

    def copy_is_held(subtopology_id: str, partition: int) -> bool:
        return holders.active_process(subtopology_id, partition) == process_id or holders.has_copy(
            process_id, subtopology_id, partition
        )

    had = member.tasks
    active = _difference(had.active, target.tasks.active, active_is_held)
    standby = _difference(had.standby, target.tasks.standby, copy_is_held)
    warmup = _difference(had.warmup, target.tasks.warmup, copy_is_held)
    revoked = CurrentTasks(_with_epochs(had.active, active.revoked), standby.revoked, warmup.revoked)
    if not revoked.is_empty and (owned is None or _owns_any(owned, revoked)):
        kept = CurrentTasks(_with_epochs(had.active, active.kept), standby.kept, warmup.kept)
        return _moved(member, epoch, MemberState.UNREVOKED_TASKS, kept, revoked)
    waits = active.waits or standby.waits or warmup.waits
    tasks = CurrentTasks(
        _with_epochs(had.active, _union(active.kept, active.added), target.epoch),
        _union(standby.kept, standby.added),
        _union(warmup.kept, warmup.added),
    )
    state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
    return _moved(member, target.epoch, state, tasks, NO_CURRENT_TASKS)


def _moved(
    member: StreamsMember, epoch: int, state: MemberState, tasks: CurrentTasks, revoked: CurrentTasks
) -> StreamsMember:
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        tasks=tasks,
        revoked=revoked,
    )


class _Difference(NamedTuple):
    """What stays, what is to be given up, what can be given, and whether a task is still held."""

    kept: TaskSet
    revoked: TaskSet
    added: TaskSet
    waits: bool


def _difference(
    current: Mapping[str, Mapping[int, int]] | TaskSet,
    target: TaskSet,
    is_held: Callable[[str, int], bool],
) -> _Difference:
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    added: dict[str, frozenset[int]] = {}
    waits = False
    for subtopology_id in sorted({*current, *target}):
        has = frozenset(current.get(subtopology_id, ()))
        wanted = target.get(subtopology_id, frozenset())
        free = frozenset(each for each in wanted - has if not is_held(subtopology_id, each))
        waits = waits or len(free) < len(wanted - has)
        for result, partitions in ((kept, has & wanted), (revoked, has - wanted), (added, free)):
            if partitions:
                result[subtopology_id] = partitions
    return _Difference(kept, revoked, added, waits)


def _union(some: TaskSet, others: TaskSet) -> TaskSet:
    none: frozenset[int] = frozenset()
    return {each: some.get(each, none) | others.get(each, none) for each in sorted({*some, *others})}


def _with_epochs(
    had: Mapping[str, Mapping[int, int]], tasks: TaskSet, epoch: int = -1
) -> dict[str, dict[int, int]]:
    """Returns tasks with the epochs that the member has for them, or else with `epoch`."""
    return {
        subtopology_id: {
            partition: had.get(subtopology_id, {}).get(partition, epoch) for partition in sorted(partitions)
        }
        for subtopology_id, partitions in tasks.items()
    }
