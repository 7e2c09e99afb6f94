"""Keeps the leases of a shard's members: their reactors answer heartbeats that only keep a session alive.

A member gets a lease with the answer to such a heartbeat, when all that its shard holds is
committed. Whatever may change that answer withdraws the lease before: each event of the group,
timers among them, changes of the image, and the end of the shard. Meanwhile the session's timer
stands too early. It is put off when it is due, or when the lease ends.
"""

from typing import NamedTuple, Protocol

from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.timers import TimerQueue


class Lease(Protocol):
    """What the data plane gives for a heartbeat."""

    @property
    def used_ms(self) -> int:
        """Time of the last heartbeat that was answered, on the loop's clock. More may be answered."""

    def withdraw(self) -> int:
        """Ends the lease. Returns `used_ms`, which is final."""


class _Leased(NamedTuple):
    lease: Lease
    session_timeout_ms: int


class SessionLeases:
    """Leases by group and member.

    Args:
        timers: Those of the shard. A member's session timer is set as long as it has a lease.
    """

    def __init__(self, timers: TimerQueue[TimerKey]) -> None:
        self._timers = timers
        self._groups: dict[str, dict[str, _Leased]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def give(self, group_id: str, member_id: str, lease: Lease, session_timeout_ms: int) -> None:
        """Notes the lease of a member, in place of an earlier one."""
        members = self._groups.setdefault(group_id, {})
        former = members.get(member_id)
        members[member_id] = _Leased(lease, session_timeout_ms)
        if former is not None:
            self._end(group_id, member_id, former)

    def withdraw(self, group_id: str) -> None:
        """Ends the leases of a group."""
        for member_id, leased in self._groups.pop(group_id, {}).items():
            self._end(group_id, member_id, leased)

    def withdraw_all(self) -> None:
        """Ends all leases."""
        for group_id in list(self._groups):
            self.withdraw(group_id)

    def renews(self, key: TimerKey, now_ms: int) -> bool:
        """Returns whether a timer that is due stands too early, because its member has sent heartbeats
        since it was set. It is set anew then; otherwise the leases of its group have ended.
        """
        leased = self._groups.get(key[1], {}).get(key[2]) if key[0] == "session" else None
        if leased is not None:
            deadline_ms = leased.lease.used_ms + leased.session_timeout_ms
            if deadline_ms > now_ms:
                self._timers.set(key, deadline_ms)
                return True
            deadline_ms = leased.lease.withdraw() + leased.session_timeout_ms
            if deadline_ms > now_ms:  # in between
                self._timers.set(key, deadline_ms)
        self.withdraw(key[1])
        return (self._timers.deadline_ms(key) or 0) > now_ms

    def _end(self, group_id: str, member_id: str, leased: _Leased) -> None:
        deadline_ms = leased.lease.withdraw() + leased.session_timeout_ms
        key = session_timer(group_id, member_id)
        set_ms = self._timers.deadline_ms(key)
        if set_ms is not None and deadline_ms > set_ms:
            self._timers.set(key, deadline_ms)
