"""Transactional clients and brokers are killed and paused; their history shows no broken promise (`make soak`: for long).

The check itself is shown to notice brokers that are wrong on purpose.
"""

import os
import time

import pytest

from tests.support.waiting import FOR_EVER_S, HANG_S
from tests.system.history.check import Check, Seen, Step
from tests.system.history.life import Life, Plan

SECONDS = float(os.environ.get("BOWSTRING_SOAK_SECONDS", "0"))
SEED = int(os.environ.get("BOWSTRING_SEED", "1"))
LIFE_S = 60.0 if SECONDS else 4.0
BROKEN_S = 3.0
WAYS = [(1, "commit"), (3, "commit"), (3, "os")]
FOUND = {
    "drop_marker": ("lost", "partially", "offset without"),
    "early_end": ("lost", "partially", "aborted and read", "records without", "offset without"),
    "commits_aborted": ("aborted and read", "partially"),
    "offsets_of_aborted": ("offset without",),
}


@pytest.mark.timeout(SECONDS + FOR_EVER_S + HANG_S)
@pytest.mark.parametrize(("brokers", "durability"), WAYS)
def test_no_promise_is_broken(tmp_path, brokers, durability):
    seed, ends_s = SEED, time.monotonic() + SECONDS / len(WAYS)
    while seed == SEED or time.monotonic() < ends_s:
        directory = tmp_path / str(seed)
        directory.mkdir()
        life = Life(Plan(seed, LIFE_S, brokers, durability=durability), directory)
        assert life.run() == [], f"seed {seed}"
        assert life.counts["committed"] and life.counts["aborted"]
        seed += 1


@pytest.mark.parametrize("broken", FOUND)
def test_a_broken_broker_is_noticed(tmp_path, broken):
    problems = Life(Plan(1, BROKEN_S, 1, broken=broken), tmp_path).run()
    assert any(each.startswith(FOUND[broken]) for each in problems), problems[:5]


# ---------------------------------------------------------------- the check alone

S0, S1, T0 = ("source", 0), ("source", 1), ("target", 0)


def judged(steps, committed, offsets=None):
    places = {S0: [], S1: [], T0: []} | committed
    return Check(steps, places, places, offsets or {}).problems()


def sends(txn, place, value):
    return Step("sends", txn, {"topic": place[0], "partition": place[1], "value": value})


WHOLE = [sends("a", S0, "a 0"), sends("a", S1, "a 0"), sends("a", S0, "a 1")]
SHOWN = {S0: [Seen(0, "a 0"), Seen(1, "a 1")], S1: [Seen(0, "a 0")]}


@pytest.mark.parametrize("told", ["commits", "committed"])
def test_a_whole_transaction_is_fine(told):
    assert judged([*WHOLE, Step(told, "a", {})], SHOWN) == []


@pytest.mark.parametrize(
    ("told", "committed", "word"),
    [
        ("committed", {S0: SHOWN[S0]}, "lost"),
        ("commits", {S0: SHOWN[S0]}, "partially visible"),
        ("aborted", SHOWN, "aborted and read"),
        ("aborts", SHOWN, "aborted and read"),
        ("committed", SHOWN | {S0: [Seen(0, "a 1"), Seen(1, "a 0")]}, "reordered"),
        ("committed", SHOWN | {S0: [*SHOWN[S0], Seen(2, "a 1")]}, "duplicated"),
        ("committed", SHOWN | {S0: [*SHOWN[S0], Seen(2, "odd")]}, "unknown"),
    ],
)
def test_what_is_wrong_with_a_transaction(told, committed, word):
    assert any(each.startswith(word) for each in judged([*WHOLE, Step(told, "a", {})], committed))


@pytest.mark.parametrize(
    ("copies", "offset", "word"),
    [
        (["c 0 a 0"], 2, "offset without records"),
        (["c 0 a 0", "c 1 a 1"], 1, "records without offset"),
        (["c 1 a 1", "c 0 a 0"], 2, "copies of source-0 are not in order"),
    ],
)
def test_what_is_wrong_with_copies(copies, offset, word):
    steps = [*WHOLE, Step("committed", "a", {}), *(sends("c", T0, value) for value in copies)]
    committed = SHOWN | {T0: [Seen(at, value) for at, value in enumerate(copies)]}
    assert any(each.startswith(word) for each in judged(steps, committed, {0: offset}))


def test_copies_that_fit_their_offset():
    copies = ["c 0 a 0", "c 1 a 1"]
    steps = [*WHOLE, Step("committed", "a", {}), *(sends("c", T0, value) for value in copies)]
    committed = SHOWN | {T0: [Seen(at, value) for at, value in enumerate(copies)]}
    assert judged([*steps, Step("committed", "c", {})], committed, {0: 2}) == []
