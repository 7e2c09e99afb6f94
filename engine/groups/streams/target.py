"""Computes target assignments of streams groups."""

from collections.abc import Mapping
from typing import NamedTuple

from bowstring.engine.groups.modern.changes import Changes
from bowstring.engine.groups.streams import records
from bowstring.engine.groups.streams.assignor import MemberSpec, assign
from bowstring.engine.groups.streams.configured_topology import ConfiguredTopology
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.member import StreamsMember
from bowstring.engine.groups.streams.tasks import NO_TASKS, Tasks


class Plan(NamedTuple):
    """For what a target assignment is computed."""

    epoch: int
    configured: ConfiguredTopology
    standby_replicas: int
    now_ms: int


def compute_target(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    present: Mapping[str, Tasks],
    plan: Plan,
    changes: Changes,
) -> dict[str, Tasks]:
    """Computes the target assignment and adds the records of what differs from the present one.

    Args:
        present: The target assignment of the members before, by member id.
    """
    if plan.configured.is_ready:
        specs = {
            member_id: MemberSpec(member.process_id, present.get(member_id, NO_TASKS))
            for member_id, member in members.items()
        }
        targets = assign(specs, plan.configured.subtopologies, plan.standby_replicas)
    else:
        targets = dict.fromkeys(members, NO_TASKS)
    changed = {name: tasks for name, tasks in targets.items() if present.get(name) != tasks}
    for member_id, tasks in changed.items():
        changes.add(records.target(group.group_id, member_id, tasks))
    changes.then(lambda: group.target.update(changed))
    changes.add(
        records.target_epoch(group.group_id, plan.epoch, plan.now_ms),
        lambda: group.set_target_epoch(plan.epoch, plan.now_ms),
    )
    return targets
