"""The REST proxy's v2 API over HTTP: metadata and produce, against a broker."""

import base64
import json

import pytest

from bowstring.clients.consumer.consumer import Consumer
from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from tests.support.rest_client import RestClient
from tests.support.schema_registry_double import schema_registry
from tests.support.served_site import served
from tests.support.waiting import HANG_S

PLAIN = "application/vnd.kafka.v2+json"
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": ["null", "int"]}]})


@pytest.fixture(scope="module")
def registry():
    with schema_registry() as double:
        yield double


@pytest.fixture(scope="module")
def rest(bootstrap, registry):
    options = RestOptions(bootstrap, schema_registry=registry.url, record_bytes_max=100_000)
    with served(RestApp(options)) as site:
        yield RestClient(site.port)


def read(bootstrap, topic, count, partition=0):
    with Consumer(bootstrap) as consumer:
        consumer.assign([(topic, partition)])
        consumer.seek((topic, partition), 0)
        found = []
        while len(found) < count:
            found += [(each.key, each.value) for each in consumer.poll(HANG_S)]
        return found


def test_metadata(rest, new_topic):
    topic = new_topic(2)
    assert rest.v2("GET", "/") == rest.v2("POST", "/", {}) == (200, {})
    brokers = rest.v2("GET", "/brokers")[1]["brokers"]
    assert topic in rest.v2("GET", "/topics")[1]
    status, found = rest.v2("GET", f"/topics/{topic}")
    assert (status, found["name"], found["configs"]["cleanup.policy"]) == (200, topic, "delete")
    partitions = found["partitions"]
    replica = {"broker": brokers[0], "leader": True, "in_sync": True}
    assert partitions[1] == {"partition": 1, "leader": brokers[0], "replicas": [replica]}
    assert rest.v2("GET", f"/topics/{topic}/partitions") == (200, partitions)
    assert rest.v2("GET", f"/topics/{topic}/partitions/1") == (200, partitions[1])
    ends = rest.v2("GET", f"/topics/{topic}/partitions/1/offsets")
    assert ends == (200, {"beginning_offset": 0, "end_offset": 0})
    for path, code in {
        "/topics/no-such": 40401,
        "/topics/no-such/partitions": 40401,
        f"/topics/{topic}/partitions/2": 40402,
        f"/topics/{topic}/partitions/x": 40402,
        f"/topics/{topic}/partitions/2/offsets": 40402,
    }.items():
        status, found = rest.v2("GET", path)
        assert (status, found["error_code"]) == (404, code), path


def test_produced_json_keeps_its_text(rest, bootstrap, new_topic):
    topic = new_topic()
    body = '{"records": [{"value": {"a" : 1.500, "b": 123456789012345678901}}, {"key": "k", "value": null}]}'
    status, found = rest.v2("POST", f"/topics/{topic}", body, "json")
    assert (status, found) == (
        200,
        {
            "offsets": [
                {"partition": 0, "offset": 0, "error_code": None, "error": None},
                {"partition": 0, "offset": 1, "error_code": None, "error": None},
            ],
            "key_schema_id": None,
            "value_schema_id": None,
        },
    )
    assert read(bootstrap, topic, 2) == [(None, b'{"a":1.500,"b":123456789012345678901}'), (b'"k"', None)]


def test_produced_base64_goes_to_the_partition_that_is_named(rest, bootstrap, new_topic):
    topic = new_topic(3)
    text = base64.b64encode(b"\0x").decode()
    records = [{"key": text, "value": text}, {"value": text, "partition": 2}, {"value": text, "partition": 9}]
    status, found = rest.v2("POST", f"/topics/{topic}/partitions/1", {"records": records}, "binary")
    assert status == 200
    assert [(each["partition"], each["offset"]) for each in found["offsets"]] == [
        (1, 0),
        (2, 0),
        (None, None),
    ]
    assert found["offsets"][2]["error_code"] == 50002
    assert read(bootstrap, topic, 1, 1) == [(b"\0x", b"\0x")]
    assert rest.v2("POST", f"/topics/{topic}/", {"records": records[:1]})[0] == 200
    status, found = rest.v2("POST", f"/topics/{topic}/partitions/3", {"records": records}, "binary")
    assert (status, found["error_code"]) == (404, 40402)


def test_produced_avro_by_schema_and_by_id(rest, registry, bootstrap, new_topic):
    topic = new_topic()
    body = {"value_schema": AVRO, "records": [{"value": {"id": {"int": 7}}}]}
    status, found = rest.v2("POST", f"/topics/{topic}", body, "avro")
    schema_id = found["value_schema_id"]
    assert (status, found["key_schema_id"], schema_id > 0) == (200, None, True)
    body = {"value_schema_id": str(schema_id), "records": [{"value": {"id": None}}, {"value": None}]}
    assert rest.v2("POST", f"/topics/{topic}", body, "avro")[1]["value_schema_id"] == schema_id
    start = b"\0" + schema_id.to_bytes(4)
    assert read(bootstrap, topic, 3) == [(None, start + b"\x02\x0e"), (None, start + b"\0"), (None, None)]


@pytest.mark.parametrize(
    ("form", "body", "status", "code"),
    [
        ("json", "", 422, 422),
        ("json", "{", 400, 400),
        ("json", {"records": []}, 422, 422),
        ("json", {"foo": 1}, 422, 422),
        ("json", {"records": [{"value": 1, "offset": 2}]}, 422, 422),
        ("json", {"records": "a list"}, 400, 400),
        ("json", b'{"records": [{"value": "\xff"}]}', 400, 400),
        ("json", '{"records": [{"value": ' + "[" * 100_000 + "]" * 100_000 + "}]}", 400, 400),
        ("binary", {"records": [{"value": "%"}]}, 400, 400),
        ("binary", {"records": [{"value": 1}]}, 400, 400),
        ("avro", {"records": [{"value": {}}]}, 422, 42202),
        ("avro", {"records": [{"key": {}}]}, 422, 42201),
        ("avro", {"value_schema": "{", "records": [{"value": {}}]}, 422, 42205),
        ("avro", {"value_schema_id": 999, "records": [{"value": {}}]}, 422, 42207),
        ("avro", {"value_schema": AVRO, "records": [{"value": {"id": 7}}]}, 400, 400),
        ("xml", {"records": [{"value": 1}]}, 415, 415),
    ],
)
def test_refused_bodies(rest, topic, form, body, status, code):
    found = rest.v2("POST", f"/topics/{topic}", body, form)
    assert (found[0], found[1]["error_code"]) == (status, code)


def test_a_record_that_fails_leaves_the_others(rest, new_topic):
    records = [{"value": "x" * 200_000}, {"value": "y"}]
    status, found = rest.v2("POST", f"/topics/{new_topic()}", {"records": records}, "json")
    assert [status] + [each["error_code"] for each in found["offsets"]] == [200, 50002, None]


def test_types_of_answers(rest, new_topic):
    path = f"/topics/{new_topic()}"
    for accept, given in {
        None: PLAIN,
        "*/*": PLAIN,
        "application/json": "application/json",
        "text/html;q=1, application/json;q=0.5, application/vnd.kafka.v2+json;q=0.7": PLAIN,
        "application/vnd.kafka.avro.v2+json": "application/vnd.kafka.avro.v2+json",
    }.items():
        answer, _ = rest.raw("GET", path, **({} if accept is None else {"accept": accept}))
        assert (answer.status, answer.headers["content-type"]) == (200, given)
    assert rest.v2("GET", path, accept="text/html")[0] == 406
    answer, _ = rest.raw("GET", "/topics/no-such", accept=PLAIN)
    assert answer.headers["content-type"] == PLAIN
