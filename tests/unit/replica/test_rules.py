"""What brokers answer to fetches and produce requests of replicated partitions, and what followers do with answers."""

import pytest

from bowstring._native.replica import rules
from bowstring._native.replica.in_sync_replicas import Followers
from bowstring.protocol.errors import Errors

NOT_LEADER = Errors.NOT_LEADER_OR_FOLLOWER.code
FENCED = Errors.FENCED_LEADER_EPOCH.code
UNKNOWN = Errors.UNKNOWN_LEADER_EPOCH.code


@pytest.mark.parametrize(
    ("of_follower", "is_leader", "has_followers", "named", "error"),
    [
        (False, True, True, -1, 0),
        (False, False, False, -1, 0),  # consumers may read from followers (KIP-392)
        (False, False, False, 4, FENCED),
        (True, False, False, 5, NOT_LEADER),
        (True, True, False, 5, UNKNOWN),
        (True, True, False, 4, NOT_LEADER),
        (True, True, True, 4, FENCED),
        (True, True, True, 6, UNKNOWN),
        (True, True, True, 5, 0),
    ],
)
def test_a_fetch_in_epoch_5(of_follower, is_leader, has_followers, named, error):
    assert rules.fetch_error(of_follower, is_leader, has_followers, named, 5) == error


@pytest.mark.parametrize(
    ("last_epoch", "offset", "found", "position"),
    [
        (-1, 7, (-1, -1), "fits"),  # an empty log
        (3, 7, (3, 7), "fits"),
        (3, 8, (3, 7), "diverges"),
        (3, 7, (2, 7), "diverges"),
        (3, 7, (-1, -1), "unknown"),
    ],
)
def test_whether_a_log_is_a_prefix(last_epoch, offset, found, position):
    assert rules.position(last_epoch, offset, *found) == position


def test_a_produce_request():
    assert rules.produce_error(1, False, 3, 2) == NOT_LEADER
    assert rules.produce_error(-1, True, 1, 2) == Errors.NOT_ENOUGH_REPLICAS.code
    assert rules.produce_error(1, True, 1, 2) == rules.produce_error(-1, True, 2, 2) == 0


def test_a_follower():
    assert rules.claims(False, 0, 5) and rules.claims(True, 5, 5) and not rules.claims(True, 4, 5)
    assert rules.follows(5, 5) and not rules.follows(5, 6)
    assert rules.when_out_of_range(0, 4, 5) == "truncate"
    assert rules.when_out_of_range(6, 9, 5) == "restart"
    assert rules.when_out_of_range(0, 9, 5) == "again"


def test_a_fetch_of_an_older_incarnation_does_not_count():
    followers = Followers([1, 2], [1, 2], broker_epochs={1: 20, 2: 30})
    ends = {"leader_end_offset": 9, "own_end_offset": 9, "high_watermark": 0, "now_ms": 1}
    assert followers.take_fetch(1, 19, 9, **ends) == (NOT_LEADER, False, -1)
    assert followers.take_fetch(3, 19, 9, **ends) == (UNKNOWN, False, -1)
    assert followers.take_fetch(1, 20, 9, **ends) == (0, False, -1)
    assert followers.take_fetch(2, 31, 7, **ends) == (0, False, 7)
    assert (followers.end_of(1), followers.end_of(2)) == (9, 7)


def test_the_controller_is_asked_once():
    followers = Followers([1, 2], [1], min_in_sync=2, lag_max_ms=10, now_ms=0)
    ends = {"leader_end_offset": 9, "own_end_offset": 9, "high_watermark": 5, "now_ms": 1}
    assert [followers.take_fetch(2, 1, 6, **ends)[1] for _ in range(2)] == [True, False]
    assert followers.take_lags(9, 100) == [1] and followers.take_lags(9, 100) == []
    followers.set_isr([1], (), changing=True)
    assert followers.take_lags(9, 100) == []
    followers.set_isr([1])
    assert followers.take_lags(9, 100) == [1]
    assert followers.ack_error() == 0
    followers.set_isr([])
    assert followers.ack_error() == Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND.code


def test_what_is_known_of_followers_stays_in_an_epoch():
    before = Followers([1], [1], now_ms=0)
    before.fetched(1, 7, 9, 1)
    assert Followers([1, 2], [1], before=before).end_of(1) == 7
    assert Followers([1, 2], [1]).end_of(1) == -1
