"""Holds one member of a streams group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from bowstring.engine.groups.streams.tasks import NO_CURRENT_TASKS, CurrentTasks


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment; the numbers are those in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It must give up tasks first."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others still have."""
    UNKNOWN = 127
    """A newer version wrote the state."""


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member. Changes make a new object; equal ones need no record."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    # host and port for interactive queries
    user_endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    tasks: CurrentTasks = NO_CURRENT_TASKS
    # tasks that the member must give up; no other member gets them before
    revoked: CurrentTasks = NO_CURRENT_TASKS

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch
