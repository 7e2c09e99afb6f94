"""Assigns tasks to the members of a streams group: Kafka 4.4's sticky task assignor.

Active tasks stay where they are as long as a member does not get more than its share; then go to members with
a standby copy; then to the process with the least load, which is its tasks per member. Standby tasks go to
members that had the task, never to a process that has it already. Warm-up tasks are not assigned, as in
Kafka 4.4.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bowstring.engine.groups.streams.configured_topology import ConfiguredSubtopology
from bowstring.engine.groups.streams.tasks import TaskId, Tasks, flat


class MemberSpec(NamedTuple):
    """A member for which tasks are assigned: its process, and the tasks that it was to have before."""

    process_id: str
    previous: Tasks


class _Process:
    """The members of one process, and what they got so far."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self.task_count = 0

    @property
    def load(self) -> float:
        return self.task_count / len(self.counts)

    def least_loaded_member(self) -> str:
        return min(self.counts, key=self.counts.__getitem__)


class _Quota:
    """How many tasks a member should have; what full members have is spread over the others anew."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def took(self, count: int) -> None:
        """Says that a member has `count` tasks now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = self._share()


def assign(
    members: Mapping[str, MemberSpec],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    standby_replicas: int,
) -> dict[str, Tasks]:
    """Returns tasks by member id.

    Args:
        members: By member id. Equal tasks for equal arguments: nothing depends on the order of a set.
        subtopologies: By id.
        standby_replicas: Copies of each task with state (``num.standby.replicas``).
    """
    if not members:
        return {}
    return _Assignment(members, subtopologies, standby_replicas).run()


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._subtopologies = subtopologies
        self._standby_replicas = standby_replicas
        self._active: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in members}
        self._standby: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in members}
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: dict[TaskId, list[str]] = {}
        for member_id in sorted(members):
            spec = members[member_id]
            process = self._processes.setdefault(spec.process_id, _Process())
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            self._was_active.update(dict.fromkeys(flat(spec.previous.active), member_id))
            for task in flat(spec.previous.standby):
                self._was_standby.setdefault(task, []).append(member_id)
        active = sum(each.tasks for each in subtopologies.values())
        stateful = sum(each.tasks for each in subtopologies.values() if each.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * standby_replicas, len(members))

    def run(self) -> dict[str, Tasks]:
        """Assigns all tasks."""
        self._assign_active()
        if self._standby_replicas > 0:
            self._assign_standby()
        return {
            member_id: Tasks(_frozen(self._active[member_id]), _frozen(self._standby[member_id]), {})
            for member_id in self._active
        }

    def _tasks(self, *, with_state: bool = False) -> Iterator[TaskId]:
        for subtopology_id, subtopology in self._subtopologies.items():
            if subtopology.is_stateful or not with_state:
                for partition in range(subtopology.tasks):
                    yield subtopology_id, partition

    def _give(self, member_id: str, task: TaskId, *, active: bool) -> int:
        process = self._process_of[member_id]
        process.tasks.add(task)
        process.task_count += 1
        process.counts[member_id] += 1
        role = self._active if active else self._standby
        role[member_id].setdefault(task[0], set()).add(task[1])
        return process.counts[member_id]

    def _count(self, member_id: str) -> int:
        return self._process_of[member_id].counts[member_id]

    # ---- active tasks

    def _assign_active(self) -> None:
        tasks = sorted(self._tasks(), key=lambda task: (task[1], task[0]))
        tasks = [task for task in tasks if not self._give_active(self._was_active.get(task), task)]
        tasks = [task for task in tasks if not self._give_active(self._least_loaded_standby(task), task)]
        tasks.sort()
        queue = self._by_load()
        for task in tasks:
            _, order, process = queue[0]
            self._took_active(self._give(process.least_loaded_member(), task, active=True))
            heapq.heapreplace(queue, (process.load, order, process))

    def _give_active(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None or self._count(member_id) >= self._active_quota.per_member:
            return False
        self._took_active(self._give(member_id, task, active=True))
        return True

    def _took_active(self, count: int) -> None:
        self._active_quota.took(count)
        self._quota.took(count)

    def _least_loaded_standby(self, task: TaskId, *, unless_present: bool = False) -> str | None:
        """Returns who had a standby copy: the first one, or a later one with less load of both process and
        member.
        """
        found: str | None = None
        best = (0.0, 0)
        for member_id in self._was_standby.get(task, ()):
            process = self._process_of[member_id]
            if unless_present and task in process.tasks:
                continue
            load = (process.load, process.counts[member_id])
            if found is None or (load[0] < best[0] and load[1] < best[1]):
                found, best = member_id, load
        return found

    def _by_load(self) -> list[tuple[float, int, _Process]]:
        queue = [(process.load, order, process) for order, process in enumerate(self._processes.values())]
        heapq.heapify(queue)
        return queue

    # ---- standby tasks

    def _assign_standby(self) -> None:
        tasks = sorted(self._tasks(with_state=True), key=lambda task: (task[1], task[0]), reverse=True)
        homeless: list[tuple[TaskId, int]] = []
        for task in tasks:
            for given in range(self._standby_replicas):
                if not self._give_standby_to_owner(task):
                    homeless.append((task, self._standby_replicas - given))
                    break
        queue = self._by_load()
        for task, replicas in sorted(homeless, reverse=True):
            for _ in range(replicas):
                if not self._give_standby(queue, task):
                    break  # every process has the task: there are fewer processes than copies wanted

    def _give_standby_to_owner(self, task: TaskId) -> bool:
        for member_id in (
            self._was_active.get(task),
            self._least_loaded_standby(task, unless_present=True),
        ):
            if (
                member_id is not None
                and task not in self._process_of[member_id].tasks
                and self._count(member_id) < self._quota.per_member
            ):
                self._quota.took(self._give(member_id, task, active=False))
                return True
        return False

    def _give_standby(self, queue: list[tuple[float, int, _Process]], task: TaskId) -> bool:
        """Gives the task to the process with the least load that does not have it."""
        passed = []
        found = False
        while queue and not found:
            _, order, process = heapq.heappop(queue)
            if task not in process.tasks:
                self._quota.took(self._give(process.least_loaded_member(), task, active=False))
                found = True
            passed.append((process.load, order, process))
        for each in passed:
            heapq.heappush(queue, each)
        return found


def _frozen(tasks: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items()}
