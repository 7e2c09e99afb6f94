"""A reactor gathers where that costs its senders nothing, and finds out by trying."""

import pytest

from bowstring._native.server.pacing import Pacing

MS = 1_000_000
WINDOW_NS = 3 * MS
# Bytes per millisecond: what counts as streaming in the end, and some senders'.
RATE_MIN = 16_384
FAST, SLOW = 400_000, 5_000
TRIAL = 12
MANY = 700  # windows: two trials and the rest between


def run(pacing, windows, rate_gathering, rate_otherwise, gathers=True):
    """What the reactor does in each window, with senders that bring so much per millisecond."""
    done = []
    for _ in range(windows):
        rate = rate_gathering if gathers else rate_otherwise
        gathers = pacing.window(rate * WINDOW_NS // MS, WINDOW_NS)
        done.append(gathers)
    return done


def share(done):
    return sum(done) / len(done)


def test_senders_without_limit_are_gathered_from():
    assert share(run(Pacing(), MANY, FAST, FAST)) > 0.95


@pytest.mark.parametrize(("cost", "gathers"), [(0.5, False), (0.9, False), (0.97, True), (1.2, True)])
def test_the_better_way_is_taken(cost, gathers):
    done = run(Pacing(), MANY, int(FAST * cost), FAST)
    settled = done[2 * TRIAL :]
    assert share(settled) > 0.95 if gathers else share(settled) < 0.05


def test_both_ways_are_tried_again():
    """Half a trial in about three hundred windows is what finding out costs."""
    done = run(Pacing(), 3_000, FAST // 2, FAST)[2 * TRIAL :]
    assert 0 < sum(done) <= 3_000 / 300 * TRIAL


def test_other_senders_are_found_out():
    pacing = Pacing()
    run(pacing, MANY, FAST // 2, FAST)
    done = run(pacing, 2 * MANY, FAST, FAST // 2, gathers=False)
    assert share(done[-100:]) > 0.9
    done = run(pacing, 2 * MANY, FAST // 2, FAST)
    assert share(done[-100:]) < 0.1


def test_a_pause_begins_anew():
    pacing = Pacing()
    run(pacing, MANY, FAST // 2, FAST)
    assert not any(run(pacing, 5, SLOW, SLOW))
    done = run(pacing, 2 * TRIAL, FAST, FAST // 2, gathers=False)
    assert any(done[:TRIAL])  # it does not wait for the next trial's turn


def test_what_comes_one_at_a_time_is_never_kept_waiting():
    assert not any(run(Pacing(), MANY, RATE_MIN - 1, RATE_MIN - 1))
