"""Values that clients of registries in other languages frame are read here, and they read what is written here."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import bowstring
from tests.conformance.drivers import Driver
from tests.support.protobuf_messages import person_classes
from tests.support.waiting import HANG_S

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
DOCUMENT = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with bowstring.Broker(registry=True) as broker:
        bowstring.Registry(broker.registry_url, schema=AVRO, subject="first", timeout=HANG_S).encode_value(
            {"id": 1}
        )
        yield broker.registry_url


def call(driver: Driver, op: str, **framing: Any) -> dict[str, Any]:
    found: dict[str, Any] = driver.call(op, framing=framing)
    return found


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_franz_go(drivers: Callable[[str], Driver], url: str, kind: str) -> None:
    driver = drivers("franz-go")
    _, order = person_classes()
    schema: Any = {"AVRO": AVRO, "JSON": DOCUMENT, "PROTOBUF": order}[kind]
    value = {"id": 7} if kind != "PROTOBUF" else {"id": 7, "item": "hat"}
    form = bowstring.Registry(url, schema=schema, subject=f"go-{kind}")
    ours = form.encode_value(value)
    assert ours is not None
    found = call(driver, "unframe", url=url, data=base64.b64encode(ours).decode())
    assert (found["kind"], found["index"]) == (kind, [1, 0] if kind == "PROTOBUF" else [])
    text = schema if kind != "PROTOBUF" else base64.b64encode(order.DESCRIPTOR.file.serialized_pb).decode()
    theirs = call(
        driver,
        "frame",
        **{"url": url, "subject": f"go-{kind}", "schema": text, "kind": kind},
        **{"payload": found["payload"], "index": found["index"]},
    )
    assert theirs["id"] == found["id"] and base64.b64decode(theirs["data"]) == ours
    rows, errors = form.decode(pa.array([base64.b64decode(theirs["data"])]))
    assert errors is None and rows.to_pylist() == [value]


def test_srclient(drivers: Callable[[str], Driver], url: str) -> None:
    driver = drivers("franz-go")  # which has both clients
    given = {"url": url, "subject": "srclient", "schema": AVRO}
    found = call(driver, "srclient", **given, payload=base64.b64encode(b'{"id": 7}').decode())
    form = bowstring.Registry(url, schema=AVRO, subject="first")
    assert base64.b64decode(found["data"]) == form.encode_value({"id": 7})
    assert found["id"] == found["found"] and found["fits"] is False and found["level"] == "FULL"
    assert "40403" in found["missing"] and "srclient" not in found["subjects"]


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_kafkajs(drivers: Callable[[str], Driver], url: str, kind: str) -> None:
    driver = drivers("kafkajs")
    schema = {"AVRO": AVRO, "JSON": DOCUMENT}[kind]
    form = bowstring.Registry(url, schema=schema, subject=f"node-{kind}")
    ours = form.encode_value({"id": 7})
    assert ours is not None
    assert call(driver, "unframe", url=url, data=base64.b64encode(ours).decode())["value"] == {"id": 7}
    given = {"url": url, "subject": f"node-{kind}", "schema": schema, "kind": kind, "value": {"id": 7}}
    theirs = base64.b64decode(call(driver, "frame", **given)["data"])
    assert theirs == ours and form.decode(pa.array([theirs]))[0].to_pylist() == [{"id": 7}]
