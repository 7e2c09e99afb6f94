"""The quota of throttled replicas: copied bytes are paid for with time (KIP-73)."""

from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.replica.replica_quota import Quota

START_MS = 1_000_000
CREDIT_MS = 1000
DEBT_MAX_MS = 10_000


def test_a_second_may_be_used_at_once_and_the_rest_is_paid_for():
    quota = Quota(1000)
    quota.record(1000, START_MS)
    assert quota.wait_ms(START_MS) == 0
    quota.record(500, START_MS)
    assert quota.wait_ms(START_MS) == 500
    assert quota.wait_ms(START_MS + 499) == 1 and quota.wait_ms(START_MS + 500) == 0


def test_without_a_rate_nothing_is_exceeded():
    quota = Quota(0)
    quota.record(1 << 40, START_MS)
    assert quota.wait_ms(START_MS) == 0


def test_no_debt_is_longer_than_the_window():
    """A rate may be too small for a single batch: Kafka's samples expire, too."""
    quota = Quota(1)
    quota.record(1 << 31, START_MS)
    assert quota.wait_ms(START_MS) == DEBT_MAX_MS


def test_another_rate_begins_anew():
    quota = Quota(1)
    quota.record(1 << 20, START_MS)
    quota.set_rate(1)
    assert quota.wait_ms(START_MS) > 0
    quota.set_rate(1000)
    assert quota.wait_ms(START_MS) == 0


@given(
    st.integers(1 << 20, 1 << 30),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 50)), max_size=60),
)
def test_who_waits_stays_within_the_rate(rate, steps):
    """Over any time: all but the last bytes are at most the rate, a second's credit, and rounding to milliseconds."""
    quota, now_ms, before_last = Quota(rate), START_MS, 0
    for size_bytes, idle_ms in steps:
        now_ms += idle_ms
        now_ms += quota.wait_ms(now_ms)
        assert quota.wait_ms(now_ms) == 0
        assert before_last <= rate * (now_ms - START_MS + CREDIT_MS + len(steps)) / 1000
        quota.record(size_bytes, now_ms)
        before_last += size_bytes
