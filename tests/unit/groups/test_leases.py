"""Leases of members: what withdraws them, and what becomes of the session's timer."""

from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.leases import SessionLeases
from bowstring.engine.groups.timers import TimerQueue

TIMEOUT_MS = 100
KEY = session_timer("g", "m")


class FakeLease:
    """A lease whose last use the test says; `late` is one that comes while it is withdrawn."""

    def __init__(self, used_ms, late=0):
        self.used_ms = used_ms
        self.late = late
        self.withdrawn = False

    def withdraw(self):
        self.withdrawn = True
        return max(self.used_ms, self.late)


def leased(used_ms, set_ms=TIMEOUT_MS, late=0):
    timers = TimerQueue()
    timers.set(KEY, set_ms)
    leases, lease = SessionLeases(timers), FakeLease(used_ms, late)
    leases.give("g", "m", lease, TIMEOUT_MS)
    return timers, leases, lease


def due(timers, now_ms):
    return list(timers.pop_due(now_ms))


def test_a_session_that_was_kept_alive_goes_on():
    timers, leases, lease = leased(used_ms=60)
    assert due(timers, 100) == [KEY]
    assert leases.renews(KEY, 100)
    assert not lease.withdrawn
    assert timers.deadline_ms(KEY) == 160
    lease.used_ms = 70
    assert due(timers, 170) == [KEY]
    assert not leases.renews(KEY, 170)
    assert lease.withdrawn and len(leases) == 0


def test_a_heartbeat_while_the_lease_ends_counts():
    timers, leases, lease = leased(used_ms=0, late=40)
    assert due(timers, 100) == [KEY]
    assert leases.renews(KEY, 100)
    assert lease.withdrawn
    assert timers.deadline_ms(KEY) == 140


def test_the_timer_is_put_off_when_the_lease_ends():
    timers, leases, lease = leased(used_ms=60)
    leases.withdraw("another")
    assert not lease.withdrawn
    leases.withdraw("g")
    assert lease.withdrawn
    assert timers.deadline_ms(KEY) == 160
    leases.withdraw_all()
    assert timers.deadline_ms(KEY) == 160


def test_the_timer_is_not_set_earlier_nor_of_a_member_that_left():
    timers, leases, _ = leased(used_ms=60, set_ms=500)
    leases.withdraw_all()
    assert timers.deadline_ms(KEY) == 500
    timers, leases, _ = leased(used_ms=60)
    timers.cancel(KEY)
    leases.withdraw("g")
    assert KEY not in timers


def test_a_later_lease_ends_the_earlier_one():
    timers, leases, former = leased(used_ms=90)
    present = FakeLease(95)
    leases.give("g", "m", present, TIMEOUT_MS)
    assert former.withdrawn and not present.withdrawn
    assert timers.deadline_ms(KEY) == 190
    assert len(leases) == 1


def test_another_timer_ends_the_leases_of_its_group():
    _, leases, lease = leased(used_ms=90)
    assert not leases.renews(("join", "other"), 100)
    assert not lease.withdrawn
    assert not leases.renews(("join", "g"), 100)
    assert lease.withdrawn
