"""High watermark and in-sync replicas by plain models."""

import random

import pytest

from bowstring._native.replica.in_sync_replicas import Followers


def test_a_follower_below_the_high_watermark_does_not_join():
    followers = Followers([1, 2], [1], epoch_start_offset=5)
    followers.fetched(2, 7, 10, 0)
    assert not followers.may_join(2, 8)
    followers.fetched(2, 8, 10, 1)
    assert followers.may_join(2, 8)
    followers.set_eligible(2, False)
    assert not followers.may_join(2, 8)
    followers.set_eligible(2, True)
    assert not Followers([2], [], epoch_start_offset=9).may_join(2, 0)  # it has not fetched in this epoch


def test_a_follower_is_caught_up_when_it_has_what_the_leader_had_at_its_last_fetch():
    followers = Followers([1], [1], lag_max_ms=10, now_ms=0)
    followers.fetched(1, 0, 100, 5)
    followers.fetched(1, 100, 200, 12)  # caught up at 5
    assert not followers.lags(1, 300, 15)
    assert followers.lags(1, 300, 16)
    assert not followers.lags(1, 100, 1000)  # it lacks nothing


def test_who_leaves_does_not_count_for_the_minimum():
    """The controller may have removed it already: its copies are lost if the leader dies."""
    followers = Followers([1, 2], [1], min_in_sync=2, lag_max_ms=10, now_ms=100)
    followers.fetched(1, 10, 10, 100)
    assert followers.high_watermark(10, 100) == 10
    followers.set_isr([1], leaving=[1])
    assert followers.high_watermark(10, 100) == -1
    followers.set_isr([1])  # the controller refused
    assert followers.high_watermark(10, 100) == 10
    followers.fetched(1, 8, 10, 101)
    followers.fetched(2, 9, 10, 101)
    followers.set_isr([1, 2], leaving=[1])
    assert followers.high_watermark(10, 200) == 8, (
        "until the controller has agreed, it waits for all of the ISR"
    )


def test_a_newer_incarnation_does_not_count_for_the_minimum():
    """When it registered, the controller removed it from the ISR."""
    followers = Followers([1], [1], min_in_sync=2, broker_epochs={1: 5})

    def fetch(epoch):
        return followers.take_fetch(
            1, epoch, 10, leader_end_offset=10, own_end_offset=10, high_watermark=0, now_ms=0
        )

    assert fetch(5)[2] == 10
    assert fetch(7)[2] == -1


@pytest.mark.parametrize("seed", range(20))
def test_the_high_watermark_by_a_model(seed):
    rng = random.Random(seed)
    others = list(range(1, rng.randint(2, 5)))
    isr = {broker for broker in others if rng.random() < 0.6}
    least = rng.randint(1, 4)
    followers = Followers(others, isr, min_in_sync=least, lag_max_ms=10, now_ms=0)
    ends = dict.fromkeys(others, -1)
    caught = {broker: 0 if broker in isr else -(10**9) for broker in others}
    last: dict[int, tuple[int, int]] = {}
    end, now = 0, 100
    caught |= dict.fromkeys(isr, 0)
    for _ in range(200):
        now += rng.randint(0, 4)
        if rng.random() < 0.5:
            end += rng.randint(1, 5)
        broker = rng.choice(others)
        if rng.random() < 0.7:
            offset = rng.randint(max(0, ends[broker]), end)
            if offset >= end:
                caught[broker] = now
            elif broker in last and offset >= last[broker][1]:
                caught[broker] = max(caught[broker], last[broker][0])
            last[broker], ends[broker] = (now, end), offset
            followers.fetched(broker, offset, end, now)
        if rng.random() < 0.1:
            isr ^= {broker}
            followers.set_isr(isr)
        counted = [ends[b] for b in others if b in isr or ends[b] == end or now - max(caught[b], 0) <= 10]
        expected = min([end, *counted]) if 1 + len(isr) >= min(least, 1 + len(others)) else -1
        assert followers.high_watermark(end, now) == expected
