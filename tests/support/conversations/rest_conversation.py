"""Requests of v2 for a REST proxy, in order: each has the state that those before it left."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.support.conversations.exchange import Exchange

PLAIN = "application/vnd.kafka.v2+json"
_AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})
_ONE = base64.b64encode(b"one").decode()


def form(name: str) -> str:
    """Returns the media type of records in this form."""
    return f"application/vnd.kafka.{name}.v2+json"


def rest_requests(topic: str, group: str) -> list[Exchange]:
    """Returns every request of the conversation.

    Args:
        topic: has two partitions and no records.
        group: has no members and no offsets.
    """
    there = _metadata(topic), _produce(topic), _avro(topic), _bad_records(topic)
    return [exchange for group_of in (*there, _consumers(topic, group)) for exchange in group_of]


def _get(name: str, target: str, accept: str = "") -> Exchange:
    return Exchange(name, "GET", target, accept=accept)


def _metadata(topic: str) -> Iterator[Exchange]:
    yield _get("topic that is unknown", f"/topics/{topic}-unknown")
    yield _get("partitions", f"/topics/{topic}/partitions")
    yield _get("partitions of an unknown topic", f"/topics/{topic}-unknown/partitions")
    yield _get("partition", f"/topics/{topic}/partitions/1")
    yield _get("partition 2", f"/topics/{topic}/partitions/2")
    yield _get("partition of letters", f"/topics/{topic}/partitions/two")
    yield _get("offsets", f"/topics/{topic}/partitions/0/offsets")
    yield _get("offsets of partition 2", f"/topics/{topic}/partitions/2/offsets")
    yield _get("offsets in an unknown topic", f"/topics/{topic}-unknown/partitions/0/offsets")
    yield _get("unknown path", "/nothing")
    yield _get("accept text", f"/topics/{topic}-unknown", "text/html")


def _post(name: str, target: str, kind: str, *records: Any, **more: Any) -> Exchange:
    return Exchange(name, "POST", target, {"records": list(records), **more}, form(kind))


def _produce(topic: str) -> Iterator[Exchange]:
    orders, first = f"/topics/{topic}", f"/topics/{topic}/partitions/0"
    yield _post("json", first, "json", {"key": "k", "value": {"id": 1}}, {"value": [1, None]})
    yield _post("json: null", first, "json", {"key": None, "value": None})
    yield _post("binary", first, "binary", {"key": _ONE, "value": _ONE})
    yield _post("partition of a record", orders, "json", {"value": 1, "partition": 0})
    yield _post("partition of a record that is missing", orders, "json", {"value": 1, "partition": 7})
    yield _post("partition that is missing", f"/topics/{topic}/partitions/7", "json", {"value": 1})
    yield _post("topic that is missing", f"/topics/{topic}-unknown", "json", {"value": 1})
    yield _get("offsets after records", f"/topics/{topic}/partitions/0/offsets")


def _avro(topic: str) -> Iterator[Exchange]:
    first = f"/topics/{topic}/partitions/1"
    yield _post("avro", first, "avro", {"value": {"id": 1}}, value_schema=_AVRO)
    yield _post("avro: without a schema", first, "avro", {"value": {"id": 1}})
    yield _post(
        "avro: key without a schema", first, "avro", {"key": 1, "value": {"id": 1}}, value_schema=_AVRO
    )
    yield _post("avro: unknown id", first, "avro", {"value": {"id": 1}}, value_schema_id=999)
    yield _post("avro: broken schema", first, "avro", {"value": {"id": 1}}, value_schema="{")
    yield _post("avro: value of another type", first, "avro", {"value": {"id": "x"}}, value_schema=_AVRO)
    yield _post("avro: no member", first, "avro", {"value": {}}, value_schema=_AVRO)


def _bad_records(topic: str) -> Iterator[Exchange]:
    first, json_form = f"/topics/{topic}/partitions/0", form("json")
    yield Exchange("no JSON", "POST", first, b"{", json_form)
    yield Exchange("no body", "POST", first, b"", json_form)
    yield Exchange("a list", "POST", first, [], json_form)
    yield Exchange("no records", "POST", first, {}, json_form)
    yield Exchange("empty records", "POST", first, {"records": []}, json_form)
    yield Exchange("records that are no list", "POST", first, {"records": 1}, json_form)
    yield Exchange("record that is no object", "POST", first, {"records": [1]}, json_form)
    yield _post("a member more", first, "json", {"value": 1, "more": 1})
    yield _post("binary that is no base64", first, "binary", {"value": "%"})
    yield _post("binary that is a number", first, "binary", {"value": 1})
    yield Exchange("text", "POST", first, {"records": [{"value": 1}]}, "text/plain")
    yield _post("form that is unknown", first, "xml", {"value": 1})


def _consumers(topic: str, group: str) -> Iterator[Exchange]:
    def post(name: str, target: str, body: Any) -> Exchange:
        return Exchange(name, "POST", target, body, PLAIN)

    consumers, one = f"/consumers/{group}", f"/consumers/{group}/instances/one"
    places = {"partitions": [{"topic": topic, "partition": 0}]}
    settings = {"format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
    yield post("consumer", consumers, {"name": "one", **settings})
    yield post("consumer again", consumers, {"name": "one", **settings})
    yield post("consumer: unknown format", consumers, {"name": "two", "format": "xml"})
    yield post("consumer: unknown reset", consumers, {"name": "two", "auto.offset.reset": "first"})
    yield _get("records of an unknown consumer", f"/consumers/{group}/instances/none/records", form("json"))
    yield _get("records without topics", f"{one}/records", form("json"))
    yield _get("subscription of none", f"{one}/subscription")
    yield _get("assignments of none", f"{one}/assignments")
    yield post("subscription without topics", f"{one}/subscription", {})
    yield post("assign", f"{one}/assignments", places)
    yield _get("assignments", f"{one}/assignments")
    yield post("subscribe after assign", f"{one}/subscription", {"topics": [topic]})
    yield post("to the beginning", f"{one}/positions/beginning", places)
    yield post(
        "to an offset", f"{one}/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]}
    )
    yield _get("records in another form", f"{one}/records?timeout=3000", form("binary"))
    yield Exchange("offsets of none", "GET", f"{one}/offsets", places, PLAIN)
    offset = {"topic": topic, "partition": 0, "offset": 1}
    yield post("commit", f"{one}/offsets", {"offsets": [offset]})
    yield Exchange("offsets that are committed", "GET", f"{one}/offsets", places, PLAIN)
    yield Exchange("delete the subscription", "DELETE", f"{one}/subscription")
    yield Exchange("delete the consumer", "DELETE", one, kind=PLAIN)
    yield Exchange("delete the consumer again", "DELETE", one, kind=PLAIN)
