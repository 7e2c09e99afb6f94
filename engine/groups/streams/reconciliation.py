"""Moves a member from the tasks that it has towards its target assignment (KIP-1071).

First the member gives up tasks, then it gets those that no other member holds. An active task is free when no
member has it and the member's own process has no copy of it; a standby or warm-up task when the process has
no copy.

A task whose role changes stays with its member, so that its state need not be restored: an active task
becomes a standby task while it is given up, copies become the other kind at once, and a copy becomes active
as soon as no other member has the active task.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from bowstring.engine.groups.streams.member import MemberState, StreamsMember
from bowstring.engine.groups.streams.tasks import (
    NO_CURRENT_TASKS,
    CurrentTasks,
    TaskId,
    Tasks,
    TaskSet,
    by_subtopology,
    flat,
    overlap,
)


class FencedEpoch(Exception):
    """The member must abandon its tasks and join again."""


class Holders(Protocol):
    """Returns which processes hold a task now, revoked tasks included."""

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
    had, wanted = member.tasks, target.tasks
    roles = _roles(member, wanted, holders)
    active, standby, warmup = roles
    # An active task is given up as well: no other member may get it before.
    _change_role(active.has, standby)
    standby.revoked -= _change_role(standby.has, warmup)
    warmup.revoked -= _change_role(warmup.has, standby)
    wanted_active = frozenset(flat(wanted.active))
    for copies in (standby, warmup):
        copies.revoked -= wanted_active
    revoked = CurrentTasks(
        _with_epochs(had.active, active.revoked),
        by_subtopology(standby.revoked),
        by_subtopology(warmup.revoked),
    )
    must_revoke = not revoked.is_empty and (owned is None or _owns_any(owned, revoked))
    promoted = frozenset() if must_revoke else frozenset(active.added)
    for copies in (standby, warmup):
        copies.kept |= (copies.has & wanted_active) - promoted
    if must_revoke:
        state = MemberState.UNREVOKED_TASKS
    else:
        revoked = NO_CURRENT_TASKS
        state = MemberState.UNRELEASED_TASKS if any(role.waits for role in roles) else MemberState.STABLE
        epoch = target.epoch
        for role in roles:
            role.kept |= role.added
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        tasks=CurrentTasks(
            _with_epochs(had.active, active.kept, target.epoch),
            by_subtopology(standby.kept),
            by_subtopology(warmup.kept),
        ),
        revoked=revoked,
    )


@dataclass(slots=True)
class _Role:
    """Tasks of one role of a member.

    Attributes:
        has: The member's tasks.
        kept: Tasks that stay.
        revoked: Tasks that it must give up.
        added: Tasks that it can get.
        waits: Whether another member still has a task of its target.
    """

    has: frozenset[TaskId]
    kept: set[TaskId]
    revoked: set[TaskId]
    added: set[TaskId]
    waits: bool


def _roles(member: StreamsMember, wanted: Tasks, holders: Holders) -> tuple[_Role, _Role, _Role]:
    """Returns the active, standby and warm-up tasks of a member, before tasks change their role.

    A task that the member itself has in another role is not held by another member, if that role can change.
    """
    process_id = member.process_id
    own_active, own_standby, own_warmup = (frozenset(flat(each)) for each in member.tasks)

    def active_is_held(task: TaskId) -> bool:
        if holders.active_process(*task) is not None:
            return True
        return task not in own_standby and task not in own_warmup and holders.has_copy(process_id, *task)

    def standby_is_held(task: TaskId) -> bool:
        if task not in own_active and holders.active_process(*task) == process_id:
            return True
        return task not in own_warmup and holders.has_copy(process_id, *task)

    def warmup_is_held(task: TaskId) -> bool:
        if holders.active_process(*task) == process_id:
            return True
        return task not in own_standby and holders.has_copy(process_id, *task)

    return (
        _role(own_active, wanted.active, active_is_held),
        _role(own_standby, wanted.standby, standby_is_held),
        _role(own_warmup, wanted.warmup, warmup_is_held),
    )


def _role(has: frozenset[TaskId], target: TaskSet, is_held: Callable[[TaskId], bool]) -> _Role:
    wanted = frozenset(flat(target))
    lacking = wanted - has
    free = {task for task in lacking if not is_held(task)}
    return _Role(has, set(has & wanted), set(has - wanted), free, len(free) < len(lacking))


def _change_role(has: frozenset[TaskId], role: _Role) -> frozenset[TaskId]:
    """Gives a role at once to tasks that the member has in another one; returns them."""
    changed = has & role.added
    role.added -= changed
    role.kept |= changed
    return changed


def _with_epochs(
    had: Mapping[str, Mapping[int, int]], tasks: Iterable[TaskId], epoch: int = -1
) -> dict[str, dict[int, int]]:
    """Returns tasks with the epochs that the member has for them, or else with `epoch`."""
    return {
        subtopology_id: {
            partition: had.get(subtopology_id, {}).get(partition, epoch) for partition in sorted(partitions)
        }
        for subtopology_id, partitions in by_subtopology(tasks).items()
    }
