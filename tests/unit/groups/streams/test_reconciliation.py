"""A member moves towards its target; tasks that it has in another role stay with it."""

from collections import Counter

import pytest

from bowstring.engine.groups.streams.member import MemberState, StreamsMember
from bowstring.engine.groups.streams.reconciliation import Target, reconcile
from bowstring.engine.groups.streams.tasks import NO_TASKS, CurrentTasks, Tasks, by_subtopology, flat

UNREVOKED, UNRELEASED, STABLE = MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS, MemberState.STABLE


class Held:
    """The holders of tasks of subtopology 0: the member itself, in process p, and others."""

    def __init__(self, member, active=None, copies=()):
        self.active = dict(active or {})
        self.copies = Counter(copies)
        for tasks in (member.tasks, member.revoked):
            self.active.update((partition, "p") for _, partition in flat(tasks.active))
            self.copies.update(
                ("p", partition) for _, partition in (*flat(tasks.standby), *flat(tasks.warmup))
            )

    def active_process(self, subtopology_id, partition):
        return self.active.get(partition)

    def has_copy(self, process_id, subtopology_id, partition):
        return self.copies[process_id, partition] > 0


def tasks(active=(), standby=(), warmup=()):
    return Tasks(*(by_subtopology(("0", each) for each in role) for role in (active, standby, warmup)))


def member(active=(), standby=(), warmup=()):
    had = tasks(active, standby, warmup)
    current = CurrentTasks({"0": dict.fromkeys(active, 3)} if active else {}, had.standby, had.warmup)
    return StreamsMember("a", process_id="p", member_epoch=5, tasks=current)


def has(member):
    """Returns the partitions of each role, and of the active tasks to be given up."""
    roles = (*member.tasks, member.revoked.active)
    return tuple(sorted(partition for _, partition in flat(role)) for role in roles)


def test_an_active_task_becomes_a_standby_task_while_it_is_given_up():
    old = member(active=[0, 1])
    target = Target(6, tasks(active=[0], standby=[1]))
    moving = reconcile(old, target, Held(old), tasks(active=[0, 1]))
    assert (moving.state, moving.member_epoch, has(moving)) == (UNREVOKED, 5, ([0], [1], [], [1]))
    assert reconcile(moving, target, Held(moving), tasks(active=[0, 1])) is moving
    moved = reconcile(moving, target, Held(moving), tasks(active=[0], standby=[1]))
    assert (moved.state, moved.member_epoch, has(moved)) == (STABLE, 6, ([0], [1], [], []))
    assert moved.tasks.active == {"0": {0: 3}}, "what stays keeps its epoch"


def test_a_copy_stays_until_its_active_task_is_free():
    for role in ("standby", "warmup"):
        old = member(active=[0], **{role: [1]})
        target = Target(6, tasks(active=[0, 1]))
        waiting = reconcile(old, target, Held(old, active={1: "q"}), None)
        assert (waiting.state, waiting.member_epoch) == (UNRELEASED, 6)
        assert has(waiting) == has(old), role
        moved = reconcile(waiting, target, Held(waiting), None)
        assert (moved.state, has(moved)) == (STABLE, ([0, 1], [], [], [])), role
        assert moved.tasks.active == {"0": {0: 3, 1: 6}}


def test_a_copy_stays_while_the_member_gives_up_another_task():
    old = member(active=[0], standby=[1])
    target = Target(6, tasks(active=[1]))
    moving = reconcile(old, target, Held(old), None)
    assert (moving.state, has(moving)) == (UNREVOKED, ([], [1], [], [0]))
    moved = reconcile(moving, target, Held(moving), NO_TASKS)
    assert (moved.state, has(moved)) == (STABLE, ([1], [], [], []))


def test_copies_change_their_kind_at_once():
    old = member(standby=[0], warmup=[1])
    target = Target(6, tasks(standby=[1], warmup=[0]))
    moved = reconcile(old, target, Held(old), None)
    assert (moved.state, moved.member_epoch, has(moved)) == (STABLE, 6, ([], [1], [0], []))


@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
def test_a_copy_of_another_member_of_the_process_is_waited_for(role):
    old = member()
    target = Target(6, tasks(**{role: [0]}))
    waiting = reconcile(old, target, Held(old, copies=[("p", 0)]), None)
    assert (waiting.state, has(waiting)) == (UNRELEASED, ([], [], [], []))
    elsewhere = reconcile(old, target, Held(old, copies=[("q", 0)]), None)
    assert elsewhere.state is STABLE


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_no_copy_beside_the_active_task_of_another_member_of_the_process(role):
    old = member()
    waiting = reconcile(old, Target(6, tasks(**{role: [0]})), Held(old, active={0: "p"}), None)
    assert (waiting.state, has(waiting)) == (UNRELEASED, ([], [], [], []))
