"""Defines what an assignor gets and returns."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from bowstring.engine.groups.modern.group import Assignment


class MemberSpec(NamedTuple):
    """A member, as an assignor sees it."""

    instance_id: str | None
    # ids of topics that exist
    topics: frozenset[bytes]
    # its present target assignment
    assigned: Assignment


# members by id, and numbers of partitions by topic id, to target assignments by member id
Assignor = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], dict[str, Assignment]]
