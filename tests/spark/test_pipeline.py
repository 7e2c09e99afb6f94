"""Declared pipelines, from the file to the records they write."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bowstring
from bowstring.cli.app import application
from bowstring.pipeline import job
from bowstring.pipeline.check import check_plan, check_topics, create_topics
from bowstring.pipeline.declaration import PipelineError, declared, load
from tests.support.waiting import HANG_S, wait_until

DECLARATION = """
name = "delays"
bootstrap_servers = "{servers}"
checkpoint = "state"

[source.flights]
topics = ["{flights}"]
format = "json"
schema = "carrier STRING, minutes INT, at TIMESTAMP"
on_error = "{on_error}"
watermark = {{ on = "at", delay = "10 minutes" }}

[view.hourly]
sql = '''
SELECT carrier, window.start AS hour, count(*) AS flights, sum(minutes) AS minutes
FROM flights GROUP BY carrier, window(at, '1 hour')
'''

[view.late]
sql = "SELECT carrier, minutes, record.offset AS place FROM flights WHERE minutes > 30"

[sink.hourly]
from = "hourly"
topic = "{hourly}"
key = "carrier"

[sink.late]
from = "late"
parquet = "late"
partition_by = ["carrier"]
"""


@pytest.fixture
def topics(broker, make_topic):
    """A topic with two hours of flights, and one to write to."""
    servers = broker.bootstrap_servers
    flights, hourly = make_topic(servers, 2), make_topic(servers, 1)
    with bowstring.Producer(servers) as producer:
        for n in range(240):
            event = {
                "carrier": ("UA", "DL")[n % 2],
                "minutes": n % 60,
                "at": f"2026-01-01T{10 + n // 60:02}:{n % 60:02}:00Z",
            }
            producer.send(flights, json.dumps(event).encode(), partition=n % 2)
    return {"servers": servers, "flights": flights, "hourly": hourly, "on_error": "fail"}


def declaration(folder: Path, topics: dict[str, str]) -> Path:
    file = folder / "delays.toml"
    file.write_text(DECLARATION.format(**topics))
    return file


def finish(queries) -> None:
    for query in queries:
        query.awaitTermination(HANG_S)
        assert query.exception() is None and not query.isActive


def rows_of(servers: str, topic: str) -> list[tuple[bytes, dict]]:
    table = bowstring.read(topic, bootstrap_servers=servers, isolation_level="read_committed")
    pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    return [(key, json.loads(value)) for key, value in pairs]


def test_a_pipeline_writes_a_topic_and_files_and_goes_on_where_it_was(spark, topics, tmp_path):
    pipeline = load(declaration(tmp_path, topics))
    finish(job.start(spark, pipeline))
    # The last of four hours is still open: its end is not 10 minutes before the latest event.
    wait_until(lambda: len(rows_of(topics["servers"], topics["hourly"])) >= 6)
    found = rows_of(topics["servers"], topics["hourly"])
    assert {(key, row["hour"][:13], row["flights"]) for key, row in found} == {
        (carrier, f"2026-01-01T{hour}", 30) for carrier in (b"UA", b"DL") for hour in (10, 11, 12)
    }
    late = spark.read.parquet(str(tmp_path / "late"))
    assert late.count() == 4 * 29 and {
        row.carrier for row in late.select("carrier").distinct().collect()
    } == {
        "UA",
        "DL",
    }
    with bowstring.Producer(topics["servers"]) as producer:
        event = {"carrier": "AA", "minutes": 31, "at": "2026-01-01T15:00:00Z"}
        producer.send(topics["flights"], json.dumps(event).encode())
    finish(job.start(spark, pipeline))
    assert spark.read.parquet(str(tmp_path / "late")).count() == 4 * 29 + 1
    wait_until(lambda: len(rows_of(topics["servers"], topics["hourly"])) == 8)
    with bowstring.Admin(topics["servers"]) as admin:
        assert [each for each in admin.list_groups() if each.group_id.startswith("bowstring-spark-")]


def test_check_tells_of_columns_and_touches_nothing(spark, topics, tmp_path):
    pipeline = load(declaration(tmp_path, topics))
    check_topics(pipeline)
    columns = check_plan(spark, pipeline)
    assert columns["hourly"] == "carrier string, hour timestamp, flights bigint, minutes bigint"
    assert columns["flights"].startswith(
        "carrier string, minutes int, at timestamp, record struct<key:binary,"
    )
    assert not (tmp_path / "state").exists() and not (tmp_path / "late").exists()


@pytest.mark.parametrize(
    ("find", "put", "message"),
    [
        ("sum(minutes)", "sum(minuets)", r"view\.hourly: .*minuets.*[Dd]id you mean.*minutes"),
        ("FROM flights WHERE", "FROM fligths WHERE", r"view\.late: .*TABLE_OR_VIEW_NOT_FOUND.*fligths"),
        ("GROUP BY carrier, window", "GROUPED BY window", r"view\.hourly: .*PARSE_SYNTAX_ERROR"),
        ('watermark = { on = "at", delay = "10 minutes" }', "", r"sink\.hourly: .*watermark"),
        ('delay = "10 minutes"', 'delay = "soon"', r"source\.flights: .*soon"),
        ("minutes INT", "minutes NUMBRE", r"source\.flights: .*NUMBRE"),
        ('key = "carrier"', 'key = "airline"', r"sink\.hourly: .*airline"),
        ('parquet = "late"', 'delta = "late"', r"sink\.late: delta needs its jar.*spark\.jars"),
        ('parquet = "late"', 'iceberg = "db.late"', r"sink\.late: iceberg needs its jar"),
    ],
)
def test_check_finds_what_a_run_would(spark, topics, tmp_path, find, put, message):
    file = declaration(tmp_path, topics)
    text = file.read_text()
    assert find in text
    file.write_text(text.replace(find, put))
    with pytest.raises(PipelineError, match=f"(?s){message}"):
        check_plan(spark, load(file))


@pytest.mark.parametrize(
    ("sink", "options"),
    [
        ({}, {"delivery": "exactly-once"}),
        ({"delivery": "at-least-once"}, {"delivery": "at-least-once"}),
        ({"options": {"kafka.acks": "1"}}, {}),
        ({"options": {"engine": "python"}, "mode": "update"}, {"delivery": "exactly-once"}),
    ],
)
def test_who_chooses_the_delivery(sink, options):
    table = {"name": "x", "checkpoint": "x", "source": {"a": {"topics": ["t"]}}}
    pipeline = declared(table | {"sink": {"b": {"from": "a", "topic": "u", **sink}}})
    assert job.delivery_options(pipeline.sink["b"]) == options
    with pytest.raises(PipelineError, match="delivery are allowed for a topic only"):
        declared(table | {"sink": {"b": {"from": "a", "console": True, "delivery": "at-least-once"}}})


def test_a_topic_that_is_not_there(topics):
    table = {
        "name": "x",
        "checkpoint": "x",
        "bootstrap_servers": topics["servers"],
        "source": {"a": {"topics": ["nothing-here"]}},
        "sink": {"b": {"from": "a", "console": True}},
    }
    with pytest.raises(PipelineError, match=r"source\.a: .* has no topic 'nothing-here'; .*topics create"):
        check_topics(declared(table))


def test_topics_of_sinks_are_created_by_a_run(broker, topics):
    servers = topics["servers"]
    made = f"{topics['hourly']}-made"
    table = {
        "name": "x",
        "checkpoint": "x",
        "bootstrap_servers": servers,
        "source": {"a": {"topics": [topics["flights"]]}},
        "sink": {"b": {"from": "a", "topic": made}, "c": {"from": "a", "topic": topics["hourly"]}},
    }
    pipeline = declared(table)
    assert check_topics(pipeline) == [f"sink.b: {servers} has no topic {made!r}"]
    assert create_topics(pipeline) == [made]
    assert check_topics(pipeline) == [] == create_topics(pipeline)


def test_a_wrong_column_is_one_line(broker, topics, tmp_path):
    """Spark logs the error with its stack as JSON, too."""
    file = declaration(tmp_path, topics | {"hourly": f"{topics['hourly']}-new"})
    file.write_text(file.read_text().replace("sum(minutes)", "sum(minuets)"))
    command = [sys.executable, "-m", "bowstring", "pipeline", "check", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ran.returncode == 1 and ran.stdout == ""
    said = ran.stderr.splitlines()
    assert len(" ".join(said)) < 1_500 and not any(line.startswith("{") for line in said), ran.stderr
    assert "view.hourly: " in ran.stderr and "minuets" in ran.stderr


def test_a_broker_that_goes_away_is_one_line(spark, tmp_path):
    """While it runs; check_topics finds topics that are missing at its start."""
    with bowstring.Broker() as gone:
        servers = gone.bootstrap_servers
        with bowstring.Admin(servers) as admin:
            admin.create_topics([bowstring.NewTopic("here", 1)])
        table = {
            "name": "x",
            "checkpoint": str(tmp_path / "state"),
            "bootstrap_servers": servers,
            "trigger": "0 seconds",
            "source": {"a": {"topics": ["here"], "options": {"kafka.default.api.timeout.ms": 1500}}},
            "sink": {"b": {"from": "a", "console": True}},
        }
        (query,) = job.start(spark, declared(table))
        query.processAllAvailable()
    with pytest.raises(Exception, match="Cannot connect to broker"):
        query.awaitTermination(HANG_S)
    said = job.reason(query.exception())
    reading = r"Reading (metadata of \[here\]|offsets of \[here-0\]) did not succeed"
    assert re.match(reading + r" within kafka\.default\.api\.timeout\.ms", said)
    assert f"Cannot connect to broker {servers}" in said and "check that it runs" in said
    assert "\n" not in said and "SQLSTATE" not in said


@pytest.mark.parametrize(("on_error", "rows"), [("drop", 240), ("column", 241)])
def test_values_that_do_not_decode(spark, topics, tmp_path, on_error, rows):
    with bowstring.Producer(topics["servers"]) as producer:
        producer.send(topics["flights"], b"no json")
    table = {
        "name": "x",
        "checkpoint": str(tmp_path / "state"),
        "bootstrap_servers": topics["servers"],
        "source": {
            "a": {
                "topics": [topics["flights"]],
                "format": "json",
                "schema": "carrier STRING",
                "on_error": on_error,
            }
        },
        "sink": {"b": {"from": "a", "parquet": str(tmp_path / "out")}},
    }
    finish(job.start(spark, declared(table)))
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.count() == rows
    if on_error == "column":
        (bad,) = written.where("_error IS NOT NULL").collect()
        assert bad.carrier is None and bad._error


def test_the_command_says_in_one_line_that_no_broker_is_there(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text(
        'name = "x"\ncheckpoint = "state"\nbootstrap_servers = "127.0.0.1:1"\n'
        '[source.a]\ntopics = ["a"]\n[sink.b]\nfrom = "a"\nconsole = true\n'
    )
    command = [sys.executable, "-m", "bowstring", "pipeline", "run", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ran.returncode == 1 and ran.stdout == ""
    assert re.fullmatch(r".*no broker could be reached within .*127\.0\.0\.1:1.*Check that .*\n", ran.stderr)


def test_the_command_says_in_one_line_what_is_wrong(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text('nmae = "x"')
    done = CliRunner().invoke(application(), ["pipeline", "check", str(file)])
    assert isinstance(done.exception, PipelineError) and "did you mean name?" in str(done.exception)
