"""The report holds every figure, says what failed, and keeps names of directories to itself."""

import json
from pathlib import Path

from bench import machine, report
from bench.results import CaseResult, Failure, Run, Sample


def run_with(*cases):
    facts = {"CPU": "Some CPU (R) 9000", "cores": "2"}
    peers = {"kafka": "Apache Kafka 4.3.1", "bowstring": "Bowstring 0.1.0"}
    return Run("short", "2026-01-02 03:04 UTC", facts, peers, {case.name: case for case in cases}, 60.0)


def produce_case():
    case = CaseResult("produce-small", "Produce", {"acks": "1"})
    for peer, cpu in (("kafka", [5.0, 6.0, 5.5]), ("bowstring", [0.5, 0.6, 0.4])):
        for number, value in enumerate(cpu, 1):
            values = {"cpu_seconds_per_gb": value, "records_per_second": 1e6 * number}
            case.samples.append(Sample(peer, number, values))
    return case


def test_report_of_a_whole_case(tmp_path):
    directory = report.write(run_with(produce_case()), tmp_path, tmp_path / "work")
    assert directory.name == "2026-01-02-some-cpu-r-9000-2-cores"
    text = (directory / "report.md").read_text()
    assert "| 5.5 [5 – 6] | 0.5 [0.4 – 0.6] | 1/11.0 | ≤ 1/6 of Kafka's | met |" in text
    assert "Cases with bars that were not part of this run: produce-modern, produce-large, consume," in text
    assert "was not run" not in text
    assert "(`cpu_per_gb.svg`, drawn beside" in text
    assert (directory / "cpu_per_gb.svg").read_text().startswith("<?xml")
    data = json.loads((directory / "report.json").read_text())
    assert len(data["cases"]["produce-small"]["samples"]) == 6
    assert data["bars"][0]["met"] is True


def test_ratios_to_the_bare_loop(tmp_path):
    case = produce_case()
    case.limits = ["produce loop", "staged loop"]
    case.samples.append(Sample("produce loop", 1, {"cpu_seconds_per_gb": 0.4}))
    case.samples.append(Sample("staged loop", 1, {"cpu_seconds_per_gb": 0.3}))
    directory = report.write(run_with(case), tmp_path, tmp_path / "work")
    text = (directory / "report.md").read_text()
    assert "| 5.5 [5 – 6] | 0.5 [0.4 – 0.6] | 1/11.0 | 0.4 | 1.25× | ≤ 1/6 of Kafka's | met |" in text
    assert "| figure | Apache Kafka | Bowstring | produce loop | staged loop | Bowstring / loop |" in text
    assert "| cpu seconds per gb | 5.5 [5 – 6] | 0.5 [0.4 – 0.6] | 0.4 | 0.3 | 1.25× |" in text
    assert "A bare loop (`bench/limits`)" in text
    assert "bare loop" in (directory / "cpu_per_gb.svg").read_text()
    assert json.loads((directory / "report.json").read_text())["bars"][0]["loop_ratio"] == 1.25


def test_failures_are_said_plainly_and_without_paths(tmp_path):
    work = tmp_path / "work"
    case = produce_case()
    home_file = Path.home() / "x"
    case.failures.append(Failure("bowstring", 3, f"PeerError: died in {work}/data, see {home_file}"))
    lost = CaseResult("idle", "Idle", {}, [], [Failure("bowstring", 1, "PeerError: ended with 1")])
    directory = report.write(run_with(case, lost), tmp_path / "reports", work)
    for name in ("report.md", "report.json"):
        text = (directory / name).read_text()
        assert "died in <work>/data" in text
        assert str(tmp_path) not in text and str(Path.home()) + "/" not in text
    text = (directory / "report.md").read_text()
    assert "## What failed" in text
    assert "**Nothing was measured; see what failed.**" in text
    assert "**not measured: failed, see below**" in text


def test_a_new_run_leaves_no_picture_of_the_old_one(tmp_path):
    first = report.write(run_with(produce_case()), tmp_path, tmp_path / "work")
    assert list(first.glob("*.svg"))
    second = report.write(run_with(), tmp_path, tmp_path / "work")
    assert second == first and not list(first.glob("*.svg"))


def test_machine_facts_name_no_host():
    facts = machine.facts()
    assert {"CPU", "cores", "memory", "kernel", "Python", "Java"} <= facts.keys()
    assert Path("/proc/sys/kernel/hostname").read_text().strip() not in facts.values()


def test_a_machine_that_was_not_quiet_is_said(tmp_path):
    case = produce_case()
    quiet = (report.write(run_with(case), tmp_path, tmp_path / "work") / "report.md").read_text()
    assert "not quiet" not in quiet
    case.samples.append(Sample("kafka", 4, {"cpu_seconds_per_gb": 5.0}, busy_cores_before=1.5))
    text = (report.write(run_with(case), tmp_path, tmp_path / "work") / "report.md").read_text()
    assert "before 1 of 7 rounds other processes kept up to 1.5 cores busy" in text
