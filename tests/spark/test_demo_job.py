"""The Spark job of the demo: flights by carrier and hour, and that it finds what is wrong."""

import itertools

from bowstring.demo import flights, replay, spark_job
from bowstring.spark.sessions import JavaMissingError

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


def test_without_java_it_says_so(monkeypatch):
    def missing(*arguments, **settings):
        raise JavaMissingError("there is no java on the PATH")

    monkeypatch.setattr(spark_job, "session", missing)
    found = spark_job.run("127.0.0.1:1", "flights", spark_job.FileCount(), lambda count: None)
    assert "there is no java" in found.skipped and not found.problems
