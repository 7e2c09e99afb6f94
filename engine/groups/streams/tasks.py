"""Defines sets of tasks: a member's target (`Tasks`) and its current ones (`CurrentTasks`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

# (subtopology id, partition)
TaskId = tuple[str, int]
TaskSet = Mapping[str, frozenset[int]]
"""Partitions by subtopology id; no empty sets."""
EpochsByTask = Mapping[str, Mapping[int, int]]
"""By subtopology id and partition, the epoch in which a member got an active task; no empty mappings."""


class Tasks(NamedTuple):
    """Tasks by role, as a target assignment has them, or as a member says that it owns them."""

    active: TaskSet
    standby: TaskSet
    warmup: TaskSet

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)


class CurrentTasks(NamedTuple):
    """Tasks of a member by role; the active ones with the epochs in which it got them."""

    active: EpochsByTask
    standby: TaskSet
    warmup: TaskSet

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)


NO_TASKS = Tasks({}, {}, {})
NO_CURRENT_TASKS = CurrentTasks({}, {}, {})


def task_set(task_ids: Iterable[Any]) -> dict[str, frozenset[int]]:
    """Collects TaskIds of a message or a record; the last wins for a subtopology that is named twice."""
    return {each.subtopology_id: frozenset(each.partitions) for each in task_ids}


def flat(tasks: Mapping[str, Iterable[int]]) -> Iterator[TaskId]:
    """Yields every task."""
    for subtopology_id, partitions in tasks.items():
        for partition in partitions:
            yield subtopology_id, partition


def by_subtopology(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    """Collects tasks, in the order of their subtopologies; the opposite of `flat`."""
    found: dict[str, set[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, set()).add(partition)
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in found.items()}


def in_order(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, list[int]]]:
    """Returns subtopology ids and their partitions, both in order."""
    return [(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]


def overlap(some: Mapping[str, Iterable[int]], others: Mapping[str, Iterable[int]]) -> bool:
    """Returns whether both have a task in common."""
    return any(
        not frozenset(partitions).isdisjoint(others[subtopology_id])
        for subtopology_id, partitions in some.items()
        if subtopology_id in others
    )


def contains(all_of: Mapping[str, Iterable[int]], some: Mapping[str, Iterable[int]]) -> bool:
    """Returns whether `all_of` has every task of `some`."""
    return all(
        frozenset(partitions).issubset(all_of.get(subtopology_id, ())) and subtopology_id in all_of
        for subtopology_id, partitions in some.items()
    )
