"""The newest schema of a subject counts as the newest for a while only: in writers, and in readers of objects."""

import json
import logging
import threading

import pyarrow as pa
import pytest

import bowstring
from bowstring.clients.errors import ConfigError
from bowstring.clients.registry import renewal
from bowstring.clients.registry.renewal import Renewal
from tests.support.schema_registry_double import schema_registry
from tests.support.waiting import HANG_S, wait_until

SUBJECT = "orders-value"


def order(*names):
    fields = [{"name": each, "type": "int", "default": 7} for each in names]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


@pytest.fixture(autouse=True)
def slow_machines(monkeypatch):
    """The answers of registries that run are always in time."""
    monkeypatch.setattr(renewal, "WAIT_S", HANG_S)


@pytest.fixture
def registry():
    with schema_registry() as double:
        double.add(SUBJECT, {"schema": order("a")})
        yield double


def schema_id(data):
    return int.from_bytes(data[1:5], "big")


def test_a_writer_takes_a_newer_schema(registry):
    form = bowstring.Registry(registry.url, latest_ttl=0).for_topic("orders", "value")
    encode = form.encoder()
    assert schema_id(encode({"a": 1})) == 1
    registry.add(SUBJECT, {"schema": order("a", "b")})
    assert schema_id(encode({"a": 1, "b": 2})) == 2
    assert schema_id(form.encode(pa.table({"a": [1], "b": [2]}))[0].as_py()) == 2
    assert form.write_schema.names == ["a", "b"]


@pytest.mark.parametrize("ttl", [60.0, None])
def test_it_stays_the_newest_for_a_while(registry, ttl):
    form = bowstring.Registry(registry.url, latest_ttl=ttl).for_topic("orders", "value")
    encode = form.encoder()
    encode({"a": 1})
    registry.add(SUBJECT, {"schema": order("a", "b")})
    asked = len(registry.requests)
    assert schema_id(encode({"a": 1})) == 1 and form.is_prepared
    assert len(registry.requests) == asked


def test_a_registry_that_is_away_leaves_the_schema_before(registry, caplog):
    form = bowstring.Registry(registry.url, latest_ttl=0).for_topic("orders", "value")
    assert schema_id(form.encode_value({"a": 1})) == 1
    registry.failure = 500, 50001, "away"
    with caplog.at_level(logging.WARNING):
        assert schema_id(form.encode_value({"a": 1})) == 1
    assert "the one before stays" in caplog.text


def test_headers_name_the_schema_that_values_have(registry):
    form = bowstring.Registry(registry.url, latest_ttl=0, wire="headers").for_topic("orders", "value")
    first = form.header_of({"a": 1})
    registry.add(SUBJECT, {"schema": order("a", "b")})
    assert form.encode_value({"a": 1}) == b"\x02"  # of the header's schema
    second = form.header_of({"a": 1, "b": 2})
    assert first != second and form.encode_value({"a": 1, "b": 2}) == b"\x02\x04"


def test_a_reader_takes_a_newer_schema(registry, bootstrap, new_topic):
    topic = new_topic()
    subject = f"{topic}-value"
    registry.add(subject, {"schema": order("a")})
    reading = bowstring.Registry(registry.url, use_latest=True, latest_ttl=0)
    writing = bowstring.Registry(registry.url, schema=order("a"))
    with (
        bowstring.Producer(bootstrap, value=writing) as producer,
        bowstring.Consumer(bootstrap, value=reading) as consumer,
    ):
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        producer.send(topic, {"a": 1}).result()
        assert [each.value for each in consumer.poll(HANG_S)] == [{"a": 1}]
        registry.add(subject, {"schema": order("a", "b")})
        producer.send(topic, {"a": 2}).result()
        assert [each.value for each in consumer.poll(HANG_S)] == [{"a": 2, "b": 7}]
        registry.failure = 500, 50001, "away"
        producer.send(topic, {"a": 3}).result()
        assert [each.value for each in consumer.poll(HANG_S)] == [{"a": 3, "b": 7}]


@pytest.mark.parametrize("ttl", [-1, float("nan"), 1e12])
def test_a_wrong_age_is_refused(registry, ttl):
    with pytest.raises(ConfigError, match="latest_ttl"):
        bowstring.Registry(registry.url, latest_ttl=ttl)


def test_a_registry_that_hangs_holds_nobody(monkeypatch):
    monkeypatch.setattr(renewal, "WAIT_S", 0.0)
    asked, answers, found = [], threading.Event(), []

    def renew():
        asked.append(1)
        answers.wait(HANG_S)
        found.append("newer")

    newest = Renewal(renew, 0.0)
    newest.look()
    assert asked == []  # nothing is known yet, so nothing is old
    newest.begin()
    for _ in range(3):
        newest.look()
    assert len(asked) == 1 and not found and not newest.is_due
    answers.set()
    wait_until(lambda: newest.is_due)
    assert found == ["newer"]


def test_failures_are_followed_by_longer_pauses(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(renewal.time, "monotonic", lambda: now[0])
    outcomes = [OSError("away")] * 5 + [None, OSError("away")]

    def renew():
        if (outcome := outcomes.pop(0)) is not None:
            raise outcome

    newest, pauses = Renewal(renew, 7.0), []
    newest.begin()
    while outcomes:
        now[0] = newest.due_at
        newest.look()
        pauses.append(newest.due_at - now[0])
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0, 7.0, 5.0]
