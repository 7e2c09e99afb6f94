"""The 2014 test in its smallest size, and what its report says of figures that are given."""

import json

import pytest

from bench.kreps import report
from bench.kreps.__main__ import main
from bench.kreps.catalogue import ARTICLE, TESTS
from bench.kreps.measure import Measured
from bench.kreps.run import NO_REPLICATION, Outcome, Result

SMOKE = [
    "producer",
    "producer-async",
    "consumer",
    "both",
    "latency",
    "stored",
    "sizes",
    "connections",
    "cold",
]


def smallest(tmp_path, *arguments):
    size = [
        "--records",
        "3000",
        "--rounds",
        "1",
        "--warm-up",
        "0",
        "--no-warm-memory",
        "--stored-gb",
        "0.001",
    ]
    return main([*arguments, *size, "--output", str(tmp_path / "out"), "--work", str(tmp_path)])


def test_a_run_in_its_smallest_size(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.kreps.measure.wait_until_calm", lambda: 0.0)
    assert smallest(tmp_path, *[part for name in SMOKE for part in ("--test", name)]) == 0
    (directory,) = (tmp_path / "out").iterdir()
    found = json.loads((directory / "report.json").read_text())["outcomes"]
    assert found["producer-async"]["bowstring"]["skipped"] == NO_REPLICATION
    for name in SMOKE[2:4]:
        (one,) = found[name]["bowstring"]["rounds"]
        assert one["values"]["records_per_second"] > 0 and one["timelines"]
    assert [p["x"] for p in found["connections"]["bowstring"]["rounds"][0]["points"]] == [1, 10, 100, 1000]
    text = (directory / "report.md").read_text()
    assert "| 1 producer, no replication | 821,557 |" in text and str(tmp_path) not in text
    assert {"throughput.svg", "latency.svg", "stored.svg"} <= {path.name for path in directory.iterdir()}


def test_librdkafka_as_the_client(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.kreps.measure.wait_until_calm", lambda: 0.0)
    assert smallest(tmp_path, "--client", "librdkafka", "--test", "both") == 0


def test_what_fails_is_told(tmp_path):
    rounds = [Measured({"records_per_second": rate}) for rate in (1e6, 3e6, 2e6)]
    outcomes = {
        "producer": {"bowstring": Outcome(rounds), "kafka": Outcome(failure="PeerError: it died")},
        "latency": {
            "bowstring": Outcome([Measured({"p50_ms": 0.2, "p99_ms": 0.4, "p999_ms": 2})]),
            "kafka": Outcome(skipped="no reason"),
        },
    }
    machine = {"CPU": "Test CPU", "cores": "2"}
    tests = [TESTS["producer"], TESTS["latency"]]
    result = Result("2026-01-01 00:00 UTC", machine, {"bowstring": "1"}, "java", 1, 10, tests, outcomes)
    text = (report.write(result, tmp_path) / "report.md").read_text()
    assert "| 1 producer, no replication | 821,557 | 2,000,000 [1,000,000 – 3,000,000] | – |" in text
    assert "| end-to-end latency | 2 / 3 / 14 | 0.2 / 0.4 / 2 ms | – |" in text
    assert "**failed**: PeerError: it died" in text and "not run; no reason" in text


@pytest.mark.parametrize(
    ("name", "figure"),
    [("producer", 821_557), ("producers-3-async", 2_024_032), ("consumers-3", 2_615_968), ("both", 795_064)],
)
def test_the_figures_of_the_article(name, figure):
    assert TESTS[name].figure_2014 == (figure,) and TESTS[name] in ARTICLE
