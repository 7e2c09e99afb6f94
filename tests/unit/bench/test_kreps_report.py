"""What a report of the 2014 test says of figures that are given."""

import json

import pytest

from bench.kreps import report
from bench.kreps.catalogue import TESTS
from bench.kreps.limits import limit_of
from bench.kreps.measure import Measured
from bench.kreps.results import Outcome, Result, from_json, merge
from bench.peers.install import PeerError

MACHINES = {"brokers and clients": {"CPU": "Test CPU", "cores": "2"}}


def result_of(tests, outcomes, **others):
    facts = {"started": "2026-01-01 00:00 UTC", "machines": MACHINES, "versions": {"bowstring": "1"}}
    size = {"client": "native", "brokers": 1, "records": 10}
    return Result(tests=[TESTS[name] for name in tests], outcomes=outcomes, **facts | size | others)


def rounds_of(*rates):
    return Outcome([Measured({"records_per_second": rate, "broker_cores": 1.5}) for rate in rates])


def test_medians_spreads_ratios_and_failures(tmp_path):
    outcomes = {
        "producer": {"bowstring": rounds_of(6e6, 8e6, 7e6), "kafka": rounds_of(1e6)},
        "consumer": {"bowstring": rounds_of(9e6), "kafka": Outcome(failure="PeerError: it died")},
        "latency": {
            "bowstring": Outcome([Measured({"p50_ms": 0.2, "p99_ms": 4, "p999_ms": 20})]),
            "kafka": Outcome(skipped="no reason"),
        },
    }
    text = (report.write(result_of(outcomes, outcomes), tmp_path) / "report.md").read_text()
    rate = "7,000,000 [6,000,000 – 8,000,000]"
    assert f"| 1 producer, no replication | 821,557 | {rate} | 1,000,000 | 7.00 |" in text
    assert "| end-to-end latency | 2 / 3 / 14 | 0.2 / 4 / 20 ms | – | – |" in text
    assert "| 1 producer, no replication | ≥ 5,000,000 | 7,000,000 | met |" in text
    assert (
        "| 1 consumer | ≥ 12,000,000 | 9,000,000 | **missed by 25 %**; cores busy: broker 1.5, clients – |"
        in text
    )
    assert "| end-to-end latency, p99 | ≤ 1 ms | 4 ms | **missed by 3 ms** |" in text
    assert "**failed**: PeerError: it died" in text and "not run; no reason" in text


def test_flatness_is_judged():
    points = [{"x": gb, "records_per_second": rate} for gb, rate in ((1.0, 100), (2.0, 100), (3.0, 80))]
    outcomes = {"stored": {"bowstring": Outcome([Measured({"records_per_second": 100}, [], points)])}}
    text = report.markdown(result_of(outcomes, outcomes), [])
    assert (
        "Bowstring from 1 to 3 GB of values stored: -20 % to +0 % of the median, not flat within 10 %" in text
    )


def points_of(*points):
    named = [
        {"x": float(n), "records_per_second": rate, "loop_records_per_second": loop}
        for n, (rate, loop) in enumerate(points, 1)
    ]
    return Outcome([Measured({"records_per_second": 100.0}, [], named)])


def test_a_dip_that_the_loop_has_too_is_the_machines(tmp_path):
    dip = {"stored": {"bowstring": points_of((100, 200), (70, 140), (100, 200), (102, 200))}}
    directory = report.write(result_of(dip, dip), tmp_path)
    text = (directory / "report.md").read_text()
    assert "-30 % to +2 % of the median, not flat within 10 %\n" in text
    assert "which has -30 % to +0 % itself: the ratio to it has +0 % to +2 %, **flat within 10 %**" in text
    assert "at 2 GB -30 %, the loop -30 %: the machine's" in text
    assert "bare loop beside it: records/s" in text and "| 2 | 70 | – | 140 | 0.5 |" in text
    assert "bare loop beside Bowstring" in (directory / "stored.svg").read_text()


def test_a_dip_that_the_loop_has_not_is_the_brokers():
    dip = {"stored": {"bowstring": points_of((100, 200), (70, 200), (100, 200))}}
    text = report.markdown(result_of(dip, dip), [])
    assert "the ratio to it has -30 % to +0 %, **not flat within 10 %**" in text
    assert "at 2 GB -30 %, the loop +0 %: the broker's" in text


def test_a_slow_loop_is_no_fault_of_the_brokers():
    slow = {"stored": {"bowstring": points_of((100, 200), (100, 100), (100, 200))}}
    text = report.markdown(result_of(slow, slow), [])
    assert (
        "**flat within 10 %**" in text
        and "the broker's" not in text.partition("## CPU")[0].partition("As")[2]
    )


def test_ratios_to_the_bare_loops(tmp_path):
    ours = Outcome([Measured({"records_per_second": 6e6, "broker_cpu_seconds_per_gb": 0.9})])
    loop = Outcome([Measured({"records_per_second": 12e6, "broker_cpu_seconds_per_gb": 0.6})])
    failed = Outcome(failure="PeerError: no compiler")
    outcomes = {"producer": {"bowstring": ours}, "consumer": {"bowstring": ours}}
    loops = {"producer": loop, "consumer": failed}
    directory = report.write(result_of(outcomes, outcomes, loops=loops), tmp_path)
    text = (directory / "report.md").read_text()
    assert (
        "| 1 producer, no replication | produce loop, 256 KiB pieces | 0.6 | 1.50× | 12,000,000 | 0.50× |"
        in text
    )
    assert (
        "| 1 producer, no replication, broker's CPU | ≤ 1.25× the bare loop's | 1.50× | **missed by 20 %** |"
        in text
    )
    assert "1 consumer, the bare loop: **failed**: PeerError: no compiler" in text
    assert "bare loop" in (directory / "cpu_per_gb.svg").read_text()
    again = from_json(json.loads((directory / "report.json").read_text()))
    assert again.loops == loops
    assert len(merge([again, result_of(outcomes, outcomes, loops=loops)]).loops["producer"].rounds) == 2


def test_tests_have_the_loop_that_does_their_work():
    names = {name: limit.name for name, test in TESTS.items() if (limit := limit_of(test))}
    producing = {"producer", "producers-3", "modern", "sizes", "partitions", "connections", "active"}
    assert {name for name, loop in names.items() if loop == "produce loop, 256 KiB pieces"} == producing
    assert names["commit"] == "commit loop" and names["consumers-3"] == "fetch loop, 1 MiB pieces"
    assert names["mixed"] == "produce loop and 3 fetch loops"
    assert names["producers-3-async"] == "3 produce loops and 2 fetch loops"
    assert not names.keys() & {"both-replicated", "stored", "latency", "cold"}


def test_what_was_written_is_read_again_and_put_together(tmp_path):
    ours = result_of(["producer"], {"producer": {"bowstring": rounds_of(5e6, 6e6)}})
    directory = report.keep(ours, tmp_path)
    again = from_json(json.loads((directory / "report.json").read_text()))
    assert again == ours
    theirs = result_of(["producer"], {"producer": {"kafka": rounds_of(1e6)}}, versions={"kafka": "2"})
    whole = merge([again, theirs])
    assert whole.versions == {"bowstring": "1", "kafka": "2"}
    assert {peer: len(each.rounds) for peer, each in whole.outcomes["producer"].items()} == {
        "bowstring": 2,
        "kafka": 1,
    }
    with pytest.raises(PeerError, match="the runs differ in records"):
        merge([ours, result_of(["producer"], {}, records=11)])
