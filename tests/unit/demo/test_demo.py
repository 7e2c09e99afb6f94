"""The demo's parts: the ledger that finds every kind of loss, the flights, a short run of the whole."""

import io
import json
from collections import namedtuple
from pathlib import Path

import pytest
from rich.console import Console

import bowstring
from bowstring.clients.errors import ConfigError
from bowstring.clients.records import Record
from bowstring.demo import flights, headline, replicated
from bowstring.demo.bare_append import BareAppend
from bowstring.demo.flights import Event
from bowstring.demo.headline_report import print_headline, print_replicated
from bowstring.demo.replay import Ledger
from tests.support.waiting import HANG_S

EVENTS = [
    Event(b"a", b"1", 1),
    Event(b"b", b"2", 2),
    Event(b"a", b"3", 3),
    Event(None, b"4", 4),
    Event(None, b"5", 5),
]


def record(event):
    return Record("t", 0, 0, event.timestamp, 0, event.key, event.value, ())


def verdict(read):
    ledger = Ledger()
    for event in EVENTS:
        ledger.note_sent(event)
    for event in read:
        ledger.note_read(record(event))
    return ledger.verdict()


def test_all_is_well():
    assert verdict(EVENTS) == []
    a1, b2, a3, n4, n5 = EVENTS
    assert verdict([n5, b2, a1, n4, a3]) == [], "order matters within a key only"


@pytest.mark.parametrize(
    "read",
    [
        EVENTS[:-1],
        [*EVENTS, EVENTS[0]],
        [EVENTS[2], EVENTS[1], EVENTS[0], *EVENTS[3:]],
        [Event(b"a", b"X", 1), *EVENTS[1:]],
        [Event(b"a", b"1", 9), *EVENTS[1:]],
        [*EVENTS[:3], Event(None, b"4", 4), Event(None, b"4", 4)],
    ],
    ids=["missing", "doubled", "reordered", "changed", "other time", "null key doubled"],
)
def test_what_is_wrong_is_found(read):
    assert verdict(read)


def test_flights():
    events = list(flights.events(flights.data_file()))
    assert len(events) == flights.FLIGHTS
    first = events[0]
    assert first.key == b"N14228" and first.timestamp == 1357035300000  # 2013-01-01 05:15 in New York
    value = json.loads(first.value)
    assert (
        value["carrier"] == "UA"
        and value["distance"] == 1400
        and value["time_hour"] == "2013-01-01T10:00:00Z"
    )
    without = [event for event in events if event.key is None]
    assert len(without) == 2512 and json.loads(without[0].value)["tailnum"] is None


def test_flights_not_installed(monkeypatch):
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'bowstring\[demo\]'"):
        flights.data_file()


def test_a_short_run(cli):
    short = ("--seconds", 0.3, "--flights", 3000, "--records", 20_000)
    result = cli("demo", *short, "--no-spark", "--json", timeout=HANG_S)
    assert result.code == 0, result.err
    figures = result.json
    assert figures["flights"] == figures["flights_read"] == 3000 and figures["problems"] == []
    assert figures["produce"]["records"] == figures["consume"]["records"] > 0
    assert figures["produce"]["broker_cpu_s_per_gb"] > 0 and figures["end_to_end"]["p50_ms"] > 0
    together = figures["headline"]
    assert [each["records"] for each in together["producers"]] == [20_000] * 3
    assert together["records"] == 60_000 and together["records_per_s"] > 0
    assert together["records_per_s_2014"] == 2_024_032 and figures["headline_read"] is None
    bare = together["bare_append"]
    assert bare["bytes_per_s"] > 0 and bare["cpu_s_per_gb"] > 0
    of_bare = together["records_per_s"] * headline.STORED_BYTES_PER_RECORD / bare["bytes_per_s"]
    assert together["of_bare_append"] == pytest.approx(of_bare)
    replicated = figures["replicated"]
    assert replicated["records"] == 60_000 and replicated["problems"] == []
    assert 0 < replicated["replicated_per_s"] <= replicated["records_per_s"]
    assert replicated["brokers_cpu_s_per_gb"] > 0


def test_brokers_that_do_not_start_are_told_of(tmp_path):
    (tmp_path / "node-1").write_text("in the way")
    found = replicated.run(1_000, lambda producer, records: None, folder=tmp_path)
    assert len(found.problems) == 1 and str(tmp_path) in found.problems[0]
    console = Console(file=io.StringIO(), width=200)
    print_replicated(console, found)
    assert f"✗ {found.problems[0]}" in console.file.getvalue()


def test_acknowledged_records_that_replicas_lack_are_told_of():
    runs = (headline.ProducerRun(5, 1.0, 1.0),)
    assert replicated.Replicated(runs, 1.0, 1.0, 1.0, 5).problems == ()
    (problem,) = replicated.Replicated(runs, 1.0, 1.0, 1.0, 4).problems
    assert problem == "5 records were acknowledged by three brokers, all replicas have 4"


def test_a_bare_loop_appends_beside_the_headline_and_leaves_nothing(tmp_path):
    with BareAppend(tmp_path) as bare:
        bare.run()
        (file,) = tmp_path.iterdir()
        assert file.stat().st_size == bare.size_bytes > 0
        first = bare.size_bytes
        bare.run()
        assert file.stat().st_size == bare.size_bytes > first
    assert list(tmp_path.iterdir()) == []
    assert bare.bytes_per_s == bare.size_bytes / bare.seconds
    assert bare.cpu_s_per_gb == pytest.approx(bare.cpu_s / bare.size_bytes * 1e9)


def test_the_ratio_to_the_bare_loop_is_one_line():
    bare = BareAppend(Path())
    bare.size_bytes, bare.seconds, bare.cpu_s = 1_100_000_000, 1.0, 0.88
    runs = (headline.ProducerRun(5_000_000, 1.0, 1.0),)
    written = headline.Headline(runs, 1.0, 1.0, 5_000_000, bare)
    console = Console(file=io.StringIO(), width=80)
    print_headline(console, written, None, [])
    said = console.file.getvalue().splitlines()
    assert "That is 0.50 of a bare append loop's 10,000,000 records/s here (0.80 CPU-s/GB)" in said


@pytest.mark.parametrize("fault", ["does not start", "dies"])
def test_a_producer_that_fails_is_told_of_and_none_is_left(monkeypatch, fault, tmp_path):
    started = []
    begin, new = headline.ProducerProcess.begin, headline.ProducerProcess.__init__
    monkeypatch.setattr(
        headline.ProducerProcess, "__init__", lambda self, *a: (new(self, *a), started.append(self))[0]
    )
    if fault == "dies":
        monkeypatch.setattr(
            headline.ProducerProcess, "begin", lambda self: (begin(self), self.process.kill())[0]
        )
    else:
        monkeypatch.setattr(headline, "SETTINGS", {"acks": "many"})
    said = "did not send its records" if fault == "dies" else "did not start: .*acks"
    with bowstring.Broker() as broker, pytest.raises(headline.ProducerError, match=f"(?s){said}"):
        headline.run(broker.bootstrap_servers, 50_000_000, lambda producer, records: None, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(started) == 3 and all(each.process.poll() is not None for each in started)


def test_no_more_records_than_the_disk_takes(tmp_path, monkeypatch):
    assert headline.records_that_fit(1_000, tmp_path) == 1_000
    free = namedtuple("free", "free")(66_000)
    monkeypatch.setattr(headline.shutil, "disk_usage", lambda folder: free)
    assert headline.records_that_fit(1_000, tmp_path) == 100
