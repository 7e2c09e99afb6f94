"""Remembers how far groups were behind, and what changed between two looks at their members."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bowstring.clients.admin.results import GroupDescription, GroupMemberDescription
from bowstring.clients.errors import ClientError
from bowstring.operations.group_progress import GroupsNow

SAMPLES_MAX = 720
"""Of a group: an hour."""
SAMPLES_MS = 5_000
"""Between two of them."""
REBALANCES_MAX = 1_000
GROUPS_MAX = 2_000


class LagSample(NamedTuple):
    """How far a group was behind. `seconds`: age of the oldest record not read; None if it is not known."""

    at_ms: int
    lag: int
    seconds: float | None


class Rebalance(NamedTuple):
    """A change of a group's members or of their partitions, seen between two looks.

    Attributes:
        group: name of the group.
        at_ms: time of the look that found it, in ms since 1970; the change was between this and the look
            before.
        since_ms: time of the look before.
        epoch: the group's epoch now; -1 for a classic group, which does not show its generation.
        epochs: how many epochs passed; 0 for a classic group.
        joined: client ids (and hosts) of members that came.
        left: of members that went away.
        moved: partitions or tasks that another member has now, or nobody.
        members: how many members there are now.
        reason: what is known about why, in a sentence.
    """

    group: str
    at_ms: int
    since_ms: int
    epoch: int
    epochs: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    moved: int
    members: int
    reason: str


def rebalance_between(
    before: GroupDescription, now: GroupDescription, since_ms: int, at_ms: int
) -> Rebalance | None:
    """Returns what changed between two looks at a group; None if members, work and epoch are the same.

    Args:
        before: the group at the first look.
        now: the group at the second look.
        since_ms: time of the first look, in ms since 1970.
        at_ms: time of the second look.
    """
    was, is_ = {m.member_id: m for m in before.members}, {m.member_id: m for m in now.members}
    joined = tuple(sorted(_name(is_[each]) for each in is_.keys() - was.keys()))
    left = tuple(sorted(_name(was[each]) for each in was.keys() - is_.keys()))
    old, new = _owners(before.members), _owners(now.members)
    moved = sum(old.get(each) != new.get(each) for each in old.keys() | new.keys())
    epochs = max(0, now.group_epoch - before.group_epoch) if before.group_epoch >= 0 else 0
    # A share group's partitions have several members each, and move without a new epoch.
    if not (joined or left or epochs or (moved and now.group_type != "share")):
        return None
    if joined or left:
        reason = _coming_and_going(was, is_, joined, left)
    else:
        reason = _other_work(len(new.keys() - old.keys()), len(old.keys() - new.keys()), epochs)
    return Rebalance(
        now.group_id, at_ms, since_ms, now.group_epoch, epochs, joined, left, moved, len(is_), reason
    )


def _name(member: GroupMemberDescription) -> str:
    instance = f" as {member.group_instance_id}" if member.group_instance_id else ""
    return f"{member.client_id or member.member_id}{instance} ({member.client_host.lstrip('/')})"


def _owners(members: Iterable[GroupMemberDescription]) -> dict[object, frozenset[str]]:
    found: dict[object, set[str]] = {}
    for member in members:
        for each in (*member.assignment, *member.tasks):
            found.setdefault(each, set()).add(member.member_id)
    return {each: frozenset(owners) for each, owners in found.items()}


def _coming_and_going(
    was: Mapping[str, GroupMemberDescription],
    is_: Mapping[str, GroupMemberDescription],
    joined: tuple[str, ...],
    left: tuple[str, ...],
) -> str:
    if not is_:
        return f"the last members left: {_some(left)}"
    if not was:
        return f"the first members joined: {_some(joined)}"
    words = [f"{_some(names)} {verb}" for names, verb in ((joined, "joined"), (left, "left")) if names]
    came, went = ({_client(each[m]) for m in each.keys() - other} for each, other in ((is_, was), (was, is_)))
    again = " (the same client came back as a new member)" if came & went else ""
    return " and ".join(words) + again


def _other_work(fresh: int, gone: int, epochs: int) -> str:
    """Returns why the same members rebalanced: so many partitions or tasks are new, or gone."""
    if fresh or gone:
        counts = " and ".join([*([f"{fresh} new"] if fresh else []), *([f"{gone} gone"] if gone else [])])
        return f"the group has other partitions ({counts}): a topic or a subscription changed"
    if epochs:
        return "the coordinator made a new epoch with the same members: a subscription or topic changed"
    return "the same members share the partitions in another way"


def _client(member: GroupMemberDescription) -> tuple[str, str]:
    return member.client_id, member.client_host


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} others"


class GroupHistory:
    """Keeps bounded samples of groups' lags, and their rebalances. Nothing of it is written to a disk."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[LagSample]] = {}
        self._last: dict[str, tuple[int, GroupDescription]] = {}
        self._rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_MAX)

    def observe(self, now: GroupsNow, at_ms: int) -> None:
        """Adds a look at some groups; the groups that were looked at least recently are forgotten.

        Args:
            now: what the groups are.
            at_ms: the time, in ms since 1970.
        """
        for group, description in now.described.items():
            if isinstance(description, ClientError):
                continue
            since_ms, before = self._last.pop(group, (at_ms, description))
            self._last[group] = at_ms, description
            change = rebalance_between(before, description, since_ms, at_ms)
            if change is not None:
                self._rebalances.append(change)
            lag = now.lag(group)
            if lag is not None:
                samples = self._samples.setdefault(group, deque(maxlen=SAMPLES_MAX))
                if not samples or at_ms - samples[-1].at_ms >= SAMPLES_MS:
                    samples.append(LagSample(at_ms, lag, now.oldest_s(group)))
        while len(self._last) > GROUPS_MAX:
            forgotten = next(iter(self._last))
            del self._last[forgotten]
            self._samples.pop(forgotten, None)

    def samples(self, group: str) -> list[LagSample]:
        """Returns the samples of a group, oldest first."""
        return list(self._samples.get(group, ()))

    def rebalances(self, group: str | None = None, since_ms: int = 0) -> list[Rebalance]:
        """Returns rebalances, newest first.

        Args:
            group: only of this group; None for all.
            since_ms: only those seen since then, in ms since 1970.
        """
        found = (each for each in reversed(self._rebalances) if each.at_ms >= since_ms)
        return [each for each in found if group is None or each.group == group]
