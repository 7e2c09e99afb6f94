"""Medians against the bars: met, missed by how much, or plainly not measured."""

import pytest

from bench.bar_limits import above, at_most, at_most_share, times_loop
from bench.bars import BARS, Bar, judge
from bench.results import CaseResult, Failure, Sample


def case_of(kafka=(), bowstring=(), failures=()):
    samples = [Sample("kafka", n, {"figure": value}) for n, value in enumerate(kafka, 1)]
    samples += [Sample("bowstring", n, {"figure": value}) for n, value in enumerate(bowstring, 1)]
    return CaseResult("case", "Case", {}, samples, list(failures))


def verdict(case, *limits):
    return judge(Bar("figure", "case", "figure", "s", limits), {"case": case})


def test_a_share_of_kafkas_median():
    good = verdict(case_of([5, 4, 6], [0.6, 0.7, 0.5]), at_most_share(8))
    assert (good.met, good.text, good.ratio) == (True, "met", pytest.approx(0.12))
    bad = verdict(case_of([4.0], [0.6]), at_most_share(8))
    assert (bad.met, bad.text) == (False, "missed by 20 % (≤ 1/8 of Kafka's)")


def test_a_miss_of_more_than_double_is_told_as_a_multiple():
    assert verdict(case_of([1.0], [0.45]), at_most(0.15, "s")).text == "missed by 3.0× (≤ 0.15 s)"


def test_every_limit_of_a_bar_counts():
    both = verdict(case_of([10.0], [1.0]), at_most_share(5), at_most(0.5, "s"))
    assert (both.met, both.text) == (False, "missed by 2.0× (≤ 0.5 s)")


def test_more_than_the_peer():
    assert verdict(case_of([100.0], [120.0]), above()).met is True
    assert verdict(case_of([100.0], [80.0]), above()).text == "missed by 25 % (above Kafka's)"
    assert verdict(case_of([100.0], [0.0]), above()).met is False


def test_an_idle_cpu_of_zero_is_what_prints_as_zero():
    assert verdict(case_of([], [0.04]), at_most(0, "%")).met is True
    assert verdict(case_of([], [0.2]), at_most(0, "%")).met is False


def test_a_failed_peer_is_never_met():
    failure = Failure("bowstring", 2, "broke")
    assert verdict(case_of([5.0], [0.1], [failure]), at_most_share(8)).met is None
    nothing = verdict(case_of([5.0], [], [failure]), at_most_share(8))
    assert (nothing.met, nothing.text) == (None, "not measured: failed, see below")


def test_a_ratio_needs_the_peer():
    alone = verdict(case_of([], [0.1]), at_most_share(8))
    assert alone.met is None
    assert alone.text == "not compared (≤ 1/8 of Kafka's): Kafka was not part of this run"


def test_the_bare_loop_is_the_limit():
    case = case_of([5.0], [0.6])
    case.samples += [Sample("a loop", n, {"figure": value}) for n, value in enumerate((0.4, 0.5, 0.6), 1)]
    case.samples.append(Sample("another", 1, {"figure": 0.1}))
    case.limits = ["a loop", "another"]
    assert verdict(case, times_loop(1.2)).text == "met"
    bad = verdict(case, times_loop(1.0), at_most_share(8))
    assert bad.text == "missed by 20 % (≤ 1x the bare loop's)"
    assert (bad.loop, bad.loop_ratio) == (0.5, pytest.approx(1.2))
    assert bad.to_json()["loop_ratio"] == pytest.approx(1.2)


def test_a_ratio_to_the_loop_needs_the_loop():
    alone = verdict(case_of([5.0], [0.1]), times_loop(1.2))
    assert (alone.met, alone.loop_ratio) == (None, None)
    assert alone.text == "not compared (≤ 1.2x the bare loop's): the loop was not part of this run"
    case = case_of([5.0], [0.1], [Failure("a loop", 1, "no compiler")])
    case.limits = ["a loop"]
    assert "the loop failed, see below" in verdict(case, times_loop(1.2)).text


def test_a_case_that_was_not_run():
    assert judge(BARS[0], {}).text == "not measured: the case was not run"
