"""The Spark jobs of the demo: flights by carrier and hour, the headline's records, and that they find what is wrong."""

import itertools
from pathlib import Path

import pytest

import bowstring
from bowstring.demo import flights, headline, headline_read, replay, spark_job, spark_session
from bowstring.demo.bare_append import BareAppend
from bowstring.demo.spark_session import DemoSpark
from bowstring.spark.sessions import JavaMissingError, SparkMissingError

FLIGHTS = 12_000


def replayed(servers, topic):
    events = list(itertools.islice(flights.events(flights.data_file()), FLIGHTS))
    events.sort(key=lambda event: event.timestamp)
    expected = spark_job.FileCount()
    for event in events:
        expected.note(event)
    replay.send(servers, topic, events, replay.Ledger(), lambda count: None)
    return expected


def test_the_job_counts_and_checks(spark, broker, make_topic, tmp_path):
    servers = broker.bootstrap_servers
    topic = make_topic(servers, 3)
    expected = replayed(servers, topic)
    frame = spark_job.carrier_hours(spark, servers, topic)
    found = spark_job.count_flights(frame, expected, lambda count: None, str(tmp_path / "right"))
    assert found.problems == () and found.counted == FLIGHTS
    assert found.hours == len(expected.closed()) > 1_000
    # One flight more in the file than in the topic shows.
    carrier, hour = next(iter(expected.closed()))
    expected.hours[carrier, hour] += 1
    found = spark_job.count_flights(frame, expected, lambda count: None, str(tmp_path / "wrong"))
    assert f"Spark read {FLIGHTS:,} flights of {FLIGHTS + 1:,}" in found.problems
    assert any(f"{carrier} had" in problem for problem in found.problems)


def test_what_the_headline_wrote_is_read_and_checked(spark):
    opened = DemoSpark(spark, engine="columnar")
    with bowstring.Broker() as broker:
        written = headline.run(
            broker.bootstrap_servers, 10_000, lambda producer, records: None, broker.data_dir
        )
        found = headline_read.read(opened, broker.bootstrap_servers, written)
        assert written.problems == found.problems == ()
        assert found.records == 30_000 and found.size_bytes == 3_000_000
        # A producer that claims one more than there is shows.
        first, *others = written.runs
        claimed = written._replace(runs=(first._replace(records=10_001), *others))
        found = headline_read.read(opened, broker.bootstrap_servers, claimed)
    assert any("30,000 records were" in each or "30,001" in each for each in claimed.problems)
    assert len(found.problems) == 2 and "30,000 records of 30,001" in found.problems[0]


@pytest.mark.parametrize("missing", [JavaMissingError("there is no java on the PATH"), SparkMissingError()])
def test_without_java_or_spark_it_says_so(monkeypatch, missing):
    def session(*arguments, **settings):
        raise missing

    monkeypatch.setattr(spark_session, "session", session)
    nothing = headline.Headline((), 0.0, 0.0, 0, BareAppend(Path()))
    with spark_session.opened() as opened:
        found = spark_job.run(opened, "127.0.0.1:1", "flights", spark_job.FileCount(), lambda count: None)
        read = headline_read.read(opened, "127.0.0.1:1", nothing)
    assert found.skipped == read.skipped == str(missing) and not found.problems and not read.problems
