"""Holds a member of a share group."""

from typing import NamedTuple

from bowstring.engine.groups.modern.group import NO_ASSIGNMENT, Assignment

NEVER = -1
STABLE = 0
"""The only state of members: partitions are shared, so no member waits for another to give them up."""


class ShareMember(NamedTuple):
    """One member. `assigned` is its assignment."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NEVER
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()
    assigned: Assignment = NO_ASSIGNMENT

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its target assignment of this epoch."""
        return self.member_epoch == epoch
