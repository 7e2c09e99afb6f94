"""Consumer instances of the REST proxy's v2 API over HTTP, against a broker."""

import base64
import http.client
import itertools
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest
from google.protobuf import descriptor_pb2

from bowstring.clients.producer.producer import Producer
from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from tests.support.rest_client import RestClient
from tests.support.schema_registry_double import schema_registry
from tests.support.served_site import served
from tests.support.waiting import HANG_S, wait_until

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": ["null", "int"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "ratio", "type": "double"},
            {"name": "raw", "type": "bytes"},
            {
                "name": "branch",
                "type": [{"type": "enum", "name": "E", "symbols": ["A"]}, "int", "long", "string"],
            },
            {"name": "many", "type": {"type": "array", "items": ["null", "float", "double"]}},
        ],
    }
)
PROTOBUF = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
ORDER = PROTOBUF.message_type.add(name="Order")
ORDER.field.add(name="order_id", number=1, type=3, label=1)
ORDER.field.add(name="note", number=2, type=9, label=1)
SERIALIZED = base64.b64encode(PROTOBUF.SerializeToString()).decode()


def order(**more):
    """A value of AVRO."""
    return {
        "id": {"int": 7},
        "at": 1,
        "ratio": 0.5,
        "raw": "\u00ff",
        "branch": {"long": 5},
        "many": [None, {"double": 1.0}],
    } | more


@pytest.fixture(scope="module")
def registry():
    with schema_registry() as double:
        yield double


@pytest.fixture(scope="module")
def rest(bootstrap, registry):
    options = RestOptions(bootstrap, schema_registry=registry.url)
    with served(RestApp(options)) as site:
        yield RestClient(site.port)


class Instance:
    """A consumer instance that a test made."""

    def __init__(self, rest, group, **settings):
        self.rest = rest
        status, made = rest.v2("POST", f"/consumers/{group}", settings)
        assert status == 200, made
        assert made["base_uri"].endswith(f"/consumers/{group}/instances/{made['instance_id']}")
        self.path = "/" + made["base_uri"].split("/", 3)[3]

    def ask(self, method, path, body=None, **headers):
        return self.rest.v2(method, self.path + path, body, **headers)

    def read(self, count, query="?timeout=2000"):
        """At least so many records."""
        found, until = [], time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < until:
            status, records = self.ask("GET", f"/records{query}")
            assert status == 200, records
            found += records
        return found


def places(*given):
    return {"partitions": [{"topic": topic, "partition": number} for topic, number in given]}


def write(bootstrap, topic, *values, partition=0):
    with Producer(bootstrap) as producer:
        for each in values:
            producer.send(topic, each, partition=partition)


def test_the_life_of_an_instance(rest, bootstrap, new_topic, new_group):
    topic, group = new_topic(), new_group
    records = [{"key": "k", "value": {"n": number}} for number in range(3)]
    assert rest.v2("POST", f"/topics/{topic}", {"records": records}, "json")[0] == 200
    settings = {"format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
    first = Instance(rest, group, name="one", **settings)
    status, found = rest.v2("POST", f"/consumers/{group}", {"name": "one"})
    assert (status, found["error_code"]) == (409, 40902)
    assert first.ask("POST", "/subscription", {"topics": [topic]}) == (204, None)
    assert first.ask("GET", "/subscription") == (200, {"topics": [topic]})
    assert first.read(3) == [
        {"topic": topic, "key": "k", "value": {"n": number}, "partition": 0, "offset": number}
        for number in range(3)
    ]
    assert first.ask("GET", "/assignments") == (200, places((topic, 0)))
    assert first.ask("GET", "/offsets", places((topic, 0))) == (200, {"offsets": []})
    offset = {"topic": topic, "partition": 0, "offset": 0, "metadata": "mine"}
    assert first.ask("POST", "/offsets", {"offsets": [offset]}) == (200, [])
    assert first.ask("GET", "/offsets", places((topic, 0))) == (200, {"offsets": [offset | {"offset": 1}]})
    assert first.ask("DELETE", "") == (204, None)
    assert first.ask("GET", "/records")[1]["error_code"] == 40403
    second = Instance(rest, group, **settings)
    second.ask("POST", "/subscription", {"topics": [topic]})
    assert [each["offset"] for each in second.read(2)] == [1, 2]
    assert second.ask("POST", "/offsets") == (200, [])
    assert second.ask("GET", "/offsets", places((topic, 0)))[1]["offsets"][0]["offset"] == 3
    assert second.ask("DELETE", "/subscription") == (204, None)
    assert second.ask("GET", "/subscription") == (200, {"topics": []})
    assert second.ask("DELETE", "")[0] == 204


def test_assigned_partitions_and_positions(rest, bootstrap, new_topic, new_group):
    topic = new_topic(2)
    write(bootstrap, topic, b"a", b"b", b"c", partition=1)
    instance = Instance(rest, new_group, **{"auto.commit.enable": False})
    both = places((topic, 0), (topic, 1))
    assert instance.ask("POST", "/positions/end", both)[1]["error_code"] == 40903
    assert instance.ask("POST", "/assignments", both) == (204, None)
    assert instance.ask("GET", "/assignments") == (200, both)
    assert instance.ask("POST", "/subscription", {"topics": [topic]})[1]["error_code"] == 40903
    assert instance.ask("POST", "/positions/beginning", both) == (204, None)
    assert [each["value"] for each in instance.read(3)] == ["YQ==", "Yg==", "Yw=="]
    seek = {"offsets": [{"topic": topic, "partition": 1, "offset": 2}]}
    assert instance.ask("POST", "/positions", seek) == (204, None)
    assert [each["offset"] for each in instance.read(1)] == [2]
    for time_text in ("2020-01-01T00:00:00Z", 1577836800):
        seek = {"timestamps": [{"topic": topic, "partition": 1, "timestamp": time_text}]}
        assert instance.ask("POST", "/positions", seek) == (204, None)
        assert [each["offset"] for each in instance.read(3)] == [0, 1, 2]
    instance.ask("POST", "/positions/end", both)
    assert instance.ask("GET", "/records?timeout=50") == (200, [])
    seek["timestamps"][0]["timestamp"] = "2020-01-01T00:00:00"
    assert instance.ask("POST", "/positions", seek)[0] == 400
    assert instance.ask("POST", "/positions", {"offsets": [{"topic": topic}]})[0] == 422
    assert instance.ask("GET", "/offsets")[1]["error_code"] == 40402
    assert instance.ask("DELETE", "")[0] == 204


def test_small_answers_have_every_record_once(rest, bootstrap, new_topic, new_group):
    topic = new_topic()
    write(bootstrap, topic, *(b"x" * (number % 50) for number in range(500)))
    settings = {"auto.offset.reset": "earliest", "auto.commit.enable": "true"}
    group = new_group
    instance = Instance(rest, group, **settings)
    instance.ask("POST", "/subscription", {"topics": [topic]})
    found = instance.read(100, "?timeout=2000&max_bytes=300")
    assert instance.ask("DELETE", "")[0] == 204
    # What was read from the broker and not returned is not committed.
    instance = Instance(rest, group, **settings)
    instance.ask("POST", "/subscription", {"topics": [topic]})
    found += instance.read(500 - len(found), "?timeout=2000&max_bytes=300")
    assert [each["offset"] for each in found] == list(range(500))
    instance.ask("DELETE", "")


def test_a_value_of_another_form_is_named(rest, bootstrap, new_topic, new_group):
    topic = new_topic()
    write(bootstrap, topic, b"1", b"no json", b"3")
    instance = Instance(rest, new_group, format="json")
    instance.ask("POST", "/assignments", places((topic, 0)))
    instance.ask("POST", "/positions/beginning", places((topic, 0)))
    assert [each["value"] for each in instance.read(1)] == [1]
    status, refused = instance.ask("GET", "/records?timeout=2000")
    assert (status, refused["error_code"]) == (500, 50002) and "offset 1" in refused["message"]
    seek = {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]}
    assert instance.ask("POST", "/positions", seek)[0] == 204
    assert [each["value"] for each in instance.read(1)] == [3]
    binary = "application/vnd.kafka.binary.v2+json"
    assert instance.ask("GET", "/records", accept=binary)[1]["error_code"] == 40601
    assert instance.ask("GET", "/records?timeout=x")[0] == 400
    instance.ask("DELETE", "")


@pytest.mark.parametrize(
    ("form", "schema", "value"),
    [
        ("avro", AVRO, order()),
        ("avro", AVRO, order(branch={"string": "A"}, many=[])),
        ("jsonschema", '{"type": "object"}', {"any": ["thing"]}),
        ("protobuf", SERIALIZED, {"orderId": "5", "note": ""}),
    ],
)
def test_values_by_schemas_come_back(rest, registry, new_topic, new_group, form, schema, value):
    topic = new_topic()
    kind = {"avro": "AVRO", "jsonschema": "JSON", "protobuf": "PROTOBUF"}[form]
    schema_id = registry.add(f"{topic}-value", {"schema": schema, "schemaType": kind})
    records = [{"value": value}, {"value": None}]
    body = {"value_schema_id": schema_id, "records": records}
    assert rest.v2("POST", f"/topics/{topic}", body, form)[0] == 200
    instance = Instance(rest, new_group, format=form)
    instance.ask("POST", "/assignments", places((topic, 0)))
    instance.ask("POST", "/positions/beginning", places((topic, 0)))
    assert [each["value"] for each in instance.read(2)] == [value, None]
    instance.ask("DELETE", "")


def test_a_header_names_the_schema(rest, registry, bootstrap, new_topic, new_group):
    topic = new_topic()
    number = registry.add(f"{topic}-value", {"schema": '{"type": "long"}', "schemaType": "AVRO"})
    header = b"\x01" + uuid.UUID(int=number).bytes
    with Producer(bootstrap) as producer:
        producer.send(topic, b"\x0e", headers=[("__value_schema_id", header)], partition=0)
    instance = Instance(rest, new_group, format="avro")
    instance.ask("POST", "/assignments", places((topic, 0)))
    instance.ask("POST", "/positions/beginning", places((topic, 0)))
    assert [each["value"] for each in instance.read(1)] == [7]
    instance.ask("DELETE", "")


def test_a_pattern_is_matched_by_brokers(rest, bootstrap, new_topic, new_group):
    topic = new_topic()
    write(bootstrap, topic, b"x")
    instance = Instance(rest, new_group, **{"auto.offset.reset": "earliest"})
    assert instance.ask("POST", "/subscription", {"topics": [], "topic_pattern": "x"})[0] == 409
    assert instance.ask("POST", "/subscription", {})[1]["error_code"] == 40903
    pattern = f"(?:{topic[:-1]}|no-such){topic[-1]}"
    assert instance.ask("POST", "/subscription", {"topic_pattern": pattern}) == (204, None)
    assert [each["topic"] for each in instance.read(1)] == [topic]
    assert instance.ask("GET", "/subscription") == (200, {"topics": [topic]})
    instance.ask("DELETE", "")


def test_a_client_that_leaves_takes_no_records(rest, bootstrap, new_topic, new_group):
    topic = new_topic()
    instance = Instance(rest, new_group, **{"fetch.min.bytes": 1000})
    instance.ask("POST", "/assignments", places((topic, 0)))
    instance.ask("POST", "/positions/beginning", places((topic, 0)))
    write(bootstrap, topic, b"x")
    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=HANG_S)
    connection.request("GET", f"{instance.path}/records?timeout=30000")
    connection.close()
    assert [each["value"] for each in instance.read(1, "?timeout=1000")] == ["eA=="]
    instance.ask("DELETE", "")


def test_a_read_that_waits_ends_when_the_instance_is_deleted(rest, new_topic, new_group):
    instance = Instance(rest, new_group)
    assert instance.ask("GET", "/records")[1]["error_code"] == 40903  # there is nothing to read yet
    instance.ask("POST", "/assignments", places((new_topic(), 0)))
    with ThreadPoolExecutor(10) as threads:
        asked = [threads.submit(instance.ask, "GET", "/records?timeout=30000") for _ in range(10)]
        for status, answer in map(result, itertools.islice(as_completed(asked), 2)):
            assert (status, answer["error_code"]) == (429, 42901)  # eight wait
        assert instance.ask("DELETE", "") == (204, None)
        found = sorted((status, answer and answer["error_code"]) for status, answer in map(result, asked))
    assert found == [(200, [])] + [(404, 40403)] * 7 + [(429, 42901)] * 2


def result(future):
    return future.result(HANG_S)


def test_instances_are_bounded_and_end_when_nobody_uses_them(bootstrap, new_group):
    options = RestOptions(bootstrap, consumers_max=2, consumer_idle_s=0.3)
    with served(RestApp(options)) as site:
        rest, group = RestClient(site.port), new_group
        made = [Instance(rest, group), Instance(rest, group)]
        status, refused = rest.v2("POST", f"/consumers/{group}", {})
        if status != 200:  # unless the first ones have ended already
            assert (status, refused["error_code"]) == (429, 42901)
        wait_until(lambda: rest.v2("POST", f"/consumers/{group}", {})[0] == 200)
        assert made[0].ask("GET", "/assignments")[1]["error_code"] == 40403
        wait_until(lambda: b"bowstring_rest_consumers 0.0" in rest.raw("GET", "/metrics")[1])
