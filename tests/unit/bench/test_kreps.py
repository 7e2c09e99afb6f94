"""The 2014 test in its smallest size, here and on other machines, and how it is interrupted."""

import json
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.kreps.__main__ import main
from bench.kreps.catalogue import ARTICLE, TESTS
from bench.kreps.loads import ROOT
from bench.kreps.machines import Here
from tests.support.waiting import HANG_S

SMOKE = [
    "producer",
    "both",
    "latency",
    "stored",
    "sizes",
    "connections",
    "active",
    "cold",
]
SMALLEST = [
    "--records",
    "3000",
    "--rounds",
    "1",
    "--warm-up",
    "0",
    "--no-warm-memory",
    "--no-calm",
    "--stored-gb",
    "0.001",
]
# Runs what ssh would run there, here.
STAND_IN = shlex.join([sys.executable, "-c", "import os, sys; os.execvp('sh', ['sh', '-c', sys.argv[2]])"])
REMOTE = ["--remote-python", sys.executable, "--ssh", STAND_IN]


def smallest(tmp_path, *arguments):
    return main([*arguments, *SMALLEST, "--output", str(tmp_path / "out"), "--work", str(tmp_path)])


def report_of(tmp_path):
    (directory,) = (tmp_path / "out").iterdir()
    return directory, json.loads((directory / "report.json").read_text())


def named(tests):
    return [part for name in tests for part in ("--test", name)]


def test_a_run_in_its_smallest_size(tmp_path, capsys, monkeypatch):
    for name, values in (("sizes", (10, 100_000)), ("connections", (1, 100)), ("active", (1, 100))):
        monkeypatch.setitem(TESTS, name, replace(TESTS[name], values=values))
    assert smallest(tmp_path, *named(SMOKE)) == 0
    directory, found = report_of(tmp_path)
    outcomes = found["outcomes"]
    for name in ("producer", "both"):
        (one,) = outcomes[name]["bowstring"]["rounds"]
        assert one["values"]["records_per_second"] > 0 and one["timelines"]
        assert one["values"]["client_rss_peak_mib"] > 1 and one["values"]["broker_rss_peak_mib"] > 1
    for name in ("connections", "active"):
        assert [p["x"] for p in outcomes[name]["bowstring"]["rounds"][0]["points"]] == [1, 100]
    assert found["loops"].keys() == {"producer", "both", "sizes", "connections", "active"}
    for outcome in found["loops"].values():
        assert outcome["rounds"][0]["values"]["broker_cpu_seconds_per_gb"] > 0 and not outcome["failure"]
    stored = outcomes["stored"]["bowstring"]["rounds"][0]["points"]
    assert len(stored) > 1 and all(point["loop_records_per_second"] > 0 for point in stored)
    text = (directory / "report.md").read_text()
    assert "## Against the bare loops" in text and "judged by the bare loop beside each point" in text
    assert "| 1 producer, no replication | 821,557 |" in text and str(tmp_path) not in text
    sweeps = {"stored", "sizes", "connections", "active"}
    pictures = {path.stem for path in directory.glob("*.svg")}
    assert pictures == {"throughput", "latency", "cpu_per_gb", "over_time"} | sweeps
    assert not list(tmp_path.glob("bowstring-kreps-*"))
    assert "1/8 1 producer, no replication, bowstring, round 1" in capsys.readouterr().err


def test_replicas_in_the_smallest_size(tmp_path):
    """Rounds in which replicas differ fail."""
    assert smallest(tmp_path, *named(["producers-3-async", "producer-sync", "both-replicated"])) == 0
    directory, found = report_of(tmp_path)
    for outcome in found["outcomes"].values():
        (one,) = outcome["bowstring"]["rounds"]
        assert one["values"]["replicated_records_per_second"] > 0
        assert one["values"]["stored_twice_records"] == 0
    text = (directory / "report.md").read_text()
    assert "| 3 producers, 3× asynchronous | 2,024,032 |" in text and "## Replicas" in text


def test_replicas_on_other_machines(tmp_path):
    hosts = ["--hosts", "first=127.0.0.1,second=127.0.0.2", "--brokers", "3"]
    assert smallest(tmp_path, *hosts, *REMOTE, "--remote-work", str(tmp_path), "--test", "producer-sync") == 0
    _, found = report_of(tmp_path)
    assert found["outcomes"]["producer-sync"]["bowstring"]["rounds"]


def test_send_for_each_record(tmp_path):
    tests = named(["producers-3-async", "consumer", "latency"])
    assert smallest(tmp_path, "--client", "native-send", "--no-loops", *tests) == 0
    _, found = report_of(tmp_path)
    assert found["client"] == "native-send"
    (one,) = found["outcomes"]["producers-3-async"]["bowstring"]["rounds"]
    assert one["values"]["replicated_records_per_second"] > 0
    assert one["values"]["ack_p50_ms"] > 0


def test_librdkafka_as_the_client_without_bare_loops(tmp_path):
    tests = named(["both", "latency", "stored"])
    assert smallest(tmp_path, "--client", "librdkafka", "--no-loops", *tests) == 0
    _, found = report_of(tmp_path)
    assert found["loops"] == {} and found["options"]["--no-loops"] == ""
    points = found["outcomes"]["stored"]["bowstring"]["rounds"][0]["points"]
    assert points and not any("loop_records_per_second" in point for point in points)


def test_brokers_and_loads_on_other_machines(tmp_path):
    hosts = ["--hosts", "first=127.0.0.1", "--load-hosts", "second=127.0.0.1"]
    tests = named(["producer", "cold", "stored"])
    assert smallest(tmp_path, *hosts, *REMOTE, "--remote-work", str(tmp_path), *tests) == 0
    directory, found = report_of(tmp_path)
    assert list(found["machines"]) == ["broker 1", "load 1"]
    for name in ("producer", "cold"):
        (one,) = found["outcomes"][name]["bowstring"]["rounds"]
        assert one["values"]["records_per_second"] > 0 and one["values"]["broker_cpu_seconds_per_gb"] > 0
    assert found["loops"]["producer"]["rounds"][0]["values"]["records_per_second"] > 0
    assert found["outcomes"]["stored"]["bowstring"]["rounds"][0]["points"][0]["loop_cpu_seconds_per_gb"] > 0
    assert "brokers and loads on machines of their own" in (directory / "report.md").read_text()
    assert not list(tmp_path.glob("bowstring-kreps-*"))


def test_agents_that_are_started_by_hand(tmp_path):
    command = [sys.executable, "-m", "bench.kreps", "--hosts", "first=127.0.0.1", "--print-commands"]
    command += ["--listen", "127.0.0.1:0", "--test", "producer", *REMOTE, *SMALLEST]
    command += ["--remote-work", str(tmp_path), "--output", str(tmp_path / "out"), "--work", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as bench:
        printed = next(line for line in bench.stderr if "bench.kreps.agent" in line)
        stranger = printed.replace("--token ", "--token not-").strip()
        assert subprocess.run(stranger, shell=True, timeout=HANG_S, check=False).returncode == 0
        with subprocess.Popen(printed.strip(), shell=True) as agent:
            assert bench.wait(HANG_S) == 0, bench.stderr.read()
            assert agent.wait(HANG_S) == 0
    _, found = report_of(tmp_path)
    assert found["outcomes"]["producer"]["bowstring"]["rounds"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--records", "100000000000"], "GB of disk on here"),
        (["--hosts", "nowhere", "--ssh", "false"], "no agent on nowhere"),
        (
            ["--hosts", "h", "--print-commands", "--listen", "127.0.0.1:0", "--wait", "0"],
            "no connection within 0 s from: h",
        ),
        (["--collect", "/nonexistent"], "name directories that runs have written"),
    ],
)
def test_what_cannot_be_run_says_what_to_do(tmp_path, capsys, arguments, says):
    common = ["--test", "producer", "--work", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main([*common, *arguments]) == 2
    assert says in capsys.readouterr().err


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_an_interrupted_run_leaves_nothing_behind_and_writes_what_it_has(tmp_path):
    size = [*SMALLEST, "--rounds", "100000", "--output", str(tmp_path / "out"), "--work", str(tmp_path)]
    command = [sys.executable, "-m", "bench.kreps", "--test", "producer", *size]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as bench:
        for line in bench.stderr:
            if line.startswith("2/"):
                break
        started = children(bench.pid)
        assert started
        bench.send_signal(signal.SIGINT)
        assert bench.wait(HANG_S) == 130
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    directory, found = report_of(tmp_path)
    assert found["interrupted"] and found["outcomes"]["producer"]["bowstring"]["rounds"]
    assert "The run was interrupted" in (directory / "report.md").read_text()
    assert not list(tmp_path.glob("bowstring-kreps-*"))


def test_a_sweep_that_fails_keeps_the_points_before(tmp_path, monkeypatch):
    # No topic has no partitions.
    monkeypatch.setitem(TESTS, "partitions", replace(TESTS["partitions"], values=(1, 2, 0)))
    assert smallest(tmp_path, "--test", "partitions") == 1
    directory, found = report_of(tmp_path)
    outcome = found["outcomes"]["partitions"]["bowstring"]
    assert [point["x"] for point in outcome["rounds"][0]["points"]] == [1, 2]
    assert outcome["failure"].startswith("at 0 partitions: WireError: creating topic")
    assert "**failed**" in (directory / "report.md").read_text()


def test_a_machine_ends_what_it_has_started(tmp_path):
    from bench.kreps.loads import Order

    here = Here(tmp_path)
    load = here.begin("native", Order("produce", "127.0.0.1:1", "t", 1, 1))
    here.close()
    assert load.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "figure"),
    [("producer", 821_557), ("producers-3-async", 2_024_032), ("consumers-3", 2_615_968), ("both", 795_064)],
)
def test_the_figures_of_the_article(name, figure):
    assert TESTS[name].figure_2014 == (figure,) and TESTS[name] in ARTICLE


def test_the_tests_are_listed(capsys):
    assert main(["--list"]) == 0
    assert "producers-3-async   3 producers, 3× asynchronous; 2014: 2,024,032" in capsys.readouterr().out
