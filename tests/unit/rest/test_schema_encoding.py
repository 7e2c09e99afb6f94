"""Records of the REST proxy with schemas of a registry: by id, version, subject, or the schema itself."""

import base64
import json

import pytest
from google.protobuf import descriptor_pb2

import bowstring
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from bowstring.rest.records import schema_encoding
from tests.support.rest_client import RestClient
from tests.support.schema_registry_double import schema_registry
from tests.support.served_site import served
from tests.support.waiting import HANG_S

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"]}],
    }
)
PROTOBUF = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
PROTOBUF.message_type.add(name="Order").field.add(name="id", number=1, type=5, label=1)
SERIALIZED = base64.b64encode(PROTOBUF.SerializeToString()).decode()
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


def doubling(depth):
    """A record of two records of two records …, all of which have defaults."""
    inner = {"type": "record", "name": "r0", "fields": [{"name": "n", "type": "int", "default": 1}]}
    for number in range(1, depth):
        types = (inner, f"r{number - 1}")
        fields = [{"name": f"f{at}", "type": each, "default": {}} for at, each in enumerate(types)]
        inner = {"type": "record", "name": f"r{number}", "fields": fields}
    return inner


@pytest.fixture(scope="module")
def registry():
    with schema_registry() as double:
        yield double


@pytest.fixture(scope="module")
def rest(bootstrap, registry):
    with served(RestApp(RestOptions(bootstrap, schema_registry=registry.url))) as site:
        yield RestClient(site.port)


def produce(rest, topic, *values):
    body = "".join(json.dumps({"value": each}) for each in values)
    return rest.lines("POST", f"/topics/{topic}/records", body)


def values_of(bootstrap, registry, topic, count):
    with bowstring.Consumer(bootstrap, value=bowstring.Registry(registry.url)) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        found = []
        while len(found) < count:
            found += [each.value for each in consumer.poll(HANG_S)]
        return found


def test_avro_by_schema_id_version_and_subject(rest, registry, bootstrap, new_topic):
    topic = new_topic()
    data = {"id": 1, "note": {"string": "x"}}
    (first,) = produce(rest, topic, {"type": "AVRO", "schema": AVRO, "data": data})
    about = first["value"]
    assert (about["type"], about["subject"], about["schema_version"]) == ("AVRO", f"{topic}-value", 1)
    answers = produce(
        rest,
        topic,
        {"data": {"id": 2, "note": None}},
        {"schema_id": about["schema_id"], "data": {"id": 3, "note": None}},
        {"schema_version": 1, "data": {"id": 4, "note": None}},
        {"subject": f"{topic}-value", "data": {"id": 5, "note": None}},
        {"data": None},
    )
    assert [each["error_code"] for each in answers] == [200] * 5
    assert answers[-1]["value"]["size"] == -1
    assert {each["value"]["schema_id"] for each in answers} == {about["schema_id"]}
    found = values_of(bootstrap, registry, topic, 6)
    assert found[:5] == [{"id": n, "note": "x" if n == 1 else None} for n in range(1, 6)]
    assert found[5] is None


def test_json_schema_and_protobuf(rest, registry, bootstrap, new_topic):
    topic = new_topic()
    (answer,) = produce(rest, topic, {"type": "JSONSCHEMA", "schema": JSON, "data": {"id": 1}})
    assert answer["value"]["type"] == "JSONSCHEMA"
    assert values_of(bootstrap, registry, topic, 1) == [{"id": 1}]
    topic = new_topic()
    (answer,) = produce(
        rest,
        topic,
        {"type": "PROTOBUF", "schema": SERIALIZED, "subject_name_strategy": "RECORD_NAME", "data": {"id": 7}},
    )
    assert (answer["value"]["type"], answer["value"]["subject"]) == ("PROTOBUF", "shop.Order")
    assert values_of(bootstrap, registry, topic, 1) == [{"id": 7}]


def test_names_of_records_are_subjects(rest, new_topic):
    topic = new_topic()
    for strategy, subject in (("RECORD_NAME", "shop.Order"), ("TOPIC_RECORD_NAME", f"{topic}-shop.Order")):
        given = {"type": "AVRO", "schema": AVRO, "subject_name_strategy": strategy}
        (answer,) = produce(rest, topic, {**given, "data": {"id": 1, "note": None}})
        assert answer["value"]["subject"] == subject


def test_large_schemas_of_requests_are_not_kept_for_good(registry, monkeypatch):
    monkeypatch.setattr(schema_encoding, "SCHEMA_CHARACTERS_MAX", len(AVRO) + 10)
    encoding = schema_encoding.SchemaEncoding(RegistryClient(registry.url))
    choices = [
        schema_encoding.SchemaChoice(type="AVRO", schema=text)
        for text in (AVRO, AVRO.replace("note", "hint"))
    ]
    first, second, again = (encoding.encoder("large", False, choices[number]) for number in (0, 1, 0))
    assert first is not again
    assert second is not encoding.encoder("large", False, choices[1])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"type": "AVRO", "schema": AVRO, "data": {"id": "one", "note": None}}, 400),
        ({"type": "AVRO", "schema": AVRO, "data": {"id": 1, "note": "x"}}, 400),
        ({"type": "AVRO", "schema": AVRO, "data": {}}, 400),
        ({"type": "AVRO", "schema": "{", "data": 1}, 400),
        ({"type": "AVRO", "schema": '{"type": "array"}', "data": []}, 400),
        ({"type": "AVRO", "schema": json.dumps(doubling(40)), "data": {}}, 400),
        ({"type": "AVRO", "data": 1}, 400),
        ({"schema": AVRO, "data": 1}, 400),
        ({"schema_id": 1, "schema_version": 1, "data": 1}, 400),
        ({"subject": "a", "subject_name_strategy": "TOPIC_NAME", "data": 1}, 400),
        ({"subject_name_strategy": "RECORD_NAME", "data": 1}, 400),
        ({"schema_id": 4711, "data": 1}, 42207),
        ({"schema_id": "a", "data": 1}, 400),
        ({"subject": "no-such", "data": 1}, 42207),
    ],
)
def test_wrong_schemas_and_data(rest, new_topic, value, code):
    answers = produce(rest, new_topic(), value, {"type": "STRING", "data": "x"})
    assert [each["error_code"] for each in answers] == [code, 200]


@pytest.mark.parametrize(("refusal", "code"), [(42201, 42205), (40901, 42207)])
def test_schemas_that_the_registry_refuses(rest, registry, new_topic, refusal, code):
    registry.failure = (refusal // 100, refusal, "no")
    try:
        answers = produce(rest, new_topic(), {"type": "AVRO", "schema": f'"refused-{refusal}"', "data": 1})
    finally:
        registry.failure = None
    assert [each["error_code"] for each in answers] == [code]


def test_json_values_are_checked_against_their_schema(rest, registry, bootstrap, new_topic):
    topic = new_topic()
    good, bad = {"id": 1}, {"id": "one"}
    first, second = produce(
        rest,
        topic,
        {"type": "JSONSCHEMA", "schema": JSON, "data": good},
        {"type": "JSONSCHEMA", "schema": JSON, "data": bad},
    )
    assert (first["error_code"], second["error_code"]) == (200, 400)
    assert "does not fit its schema" in second["message"] and "at /id" in second["message"]
    schema_id = first["value"]["schema_id"]
    (third,) = produce(rest, topic, {"schema_id": schema_id, "data": bad})
    assert third["error_code"] == 400
    body = {"value_schema_id": schema_id, "records": [{"value": good}, {"value": bad}]}
    status, answer = rest.v2("POST", f"/topics/{topic}", body, "jsonschema")
    assert (status, answer["error_code"]) == (400, 400)
    body["records"].pop()
    assert rest.v2("POST", f"/topics/{topic}", body, "jsonschema")[0] == 200
    assert values_of(bootstrap, registry, topic, 2) == [good, good]
