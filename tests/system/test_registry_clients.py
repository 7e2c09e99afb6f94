"""Confluent's Python client and serializers against the registry beside a broker."""

import asyncio
import json
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import bowstring
from tests.support.registry_double import record_schema

WAIT_S = 30


@pytest.fixture(scope="module")
def broker():
    with bowstring.Broker(registry=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker):
    with SchemaRegistryClient({"url": broker.registry_url, "timeout": WAIT_S}) as client:
        yield client


def code_of(call, *arguments, **options):
    with pytest.raises(SchemaRegistryError) as refusal:
        call(*arguments, **options)
    return refusal.value.error_code


def test_subjects_versions_and_ids(client):
    schema = Schema(record_schema("a"), "AVRO")
    schema_id = client.register_schema("client/one value", schema)
    client.clear_caches()
    assert client.register_schema("client/one value", schema) == schema_id
    assert client.get_schema(schema_id).schema_str == schema.schema_str
    full = client.register_schema_full_response("client-two", schema)
    assert (full.schema_id, full.version) == (schema_id, 1)
    assert client.get_schema_by_guid(full.guid).schema_str == schema.schema_str
    assert {each.subject for each in client.get_schema_versions(schema_id)} == {
        "client/one value",
        "client-two",
    }
    assert client.get_subjects_by_schema_id(schema_id) == ["client-two", "client/one value"]
    assert client.lookup_schema("client-two", schema).version == 1
    assert {"client-two", "client/one value"} <= set(client.get_subjects())
    assert client.get_versions("client-two") == [1]
    assert client.get_latest_version("client-two").schema_id == schema_id
    assert client.get_version("client-two", 1).guid == full.guid
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert code_of(client.get_schema, 9999) == 40403
    assert code_of(client.get_latest_version, "client-none") == 40401


def test_deletions(client):
    for fields in (("a",), ()):
        client.register_schema("deleted", Schema(record_schema(*fields, name="D"), "AVRO"))
    assert client.delete_version("deleted", 1) == 1
    assert code_of(client.get_version, "deleted", 1) == 40402
    assert client.get_version("deleted", 1, deleted=True).version == 1
    assert client.delete_version("deleted", 1, permanent=True) == 1
    assert client.delete_subject("deleted") == [2]
    assert client.delete_subject("deleted", permanent=True) == [2]
    assert "deleted" not in client.get_subjects(deleted=True)


def test_compatibility_and_configs(client):
    subject = "levels"
    client.register_schema(subject, Schema(record_schema("a"), "AVRO"))
    other = Schema(record_schema("b"), "AVRO")
    assert not client.test_compatibility(subject, other)
    assert code_of(client.register_schema, subject, other) == 40901
    assert client.set_compatibility(subject, "NONE")["compatibility"] == "NONE"
    assert client.get_compatibility(subject) == "NONE"
    assert client.test_compatibility(subject, other)
    assert client.test_compatibility_all_versions(subject, other)
    client.set_config(
        subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major")
    )
    config = client.get_config(subject)
    assert (config.compatibility_level, config.compatibility_group) == ("FULL", "major")
    client.delete_config(subject)
    assert code_of(client.get_config, subject) == 40408
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert code_of(client.register_schema, subject, other) == 42205
    assert client.get_mode(subject) == "READONLY"
    client.delete_mode(subject)
    assert client.get_global_mode() == "READWRITE"


def test_references_metadata_and_rules(client):
    part = Schema(record_schema("a", name="Part"), "AVRO")
    client.register_schema("part", part)
    whole = Schema('{"type":"array","items":"Part"}', "AVRO", [SchemaReference("Part", "part", 1)])
    whole_id = client.register_schema("whole", whole)
    assert client.get_referenced_by("part", 1) == [whole_id]
    assert code_of(client.delete_version, "part", 1) == 42206
    rule = Rule(
        *("short", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None, False)
    )
    described = Schema(
        record_schema("x", name="Described"),
        "AVRO",
        metadata=Metadata(None, MetadataProperties({"owner": "ann"}), None),
        rule_set=RuleSet(None, [rule]),
    )
    client.register_schema("described", described)
    found = client.get_latest_with_metadata("described", {"owner": "ann"})
    assert found.schema.metadata.properties.properties == {"owner": "ann"}
    assert found.schema.rule_set.domain_rules[0].expr == "true"


def test_contexts(client):
    schema = Schema(record_schema("c", name="InContext"), "AVRO")
    schema_id = client.register_schema(":.other:orders", schema)
    assert ".other" in client.get_contexts()
    assert client.get_versions(":.other:orders") == [1]
    assert client.get_schema(schema_id, ":.other:").schema_str == schema.schema_str


def test_the_asynchronous_client(broker):
    async def main():
        async with AsyncSchemaRegistryClient({"url": broker.registry_url}) as client:
            schema = Schema('{"type":"enum","name":"E","symbols":["A"]}', "AVRO")
            schema_id = await client.register_schema("asynchronous", schema)
            assert (await client.get_schema(schema_id)).schema_str == schema.schema_str
            assert (await client.get_latest_version("asynchronous")).version == 1

    asyncio.run(main())


def test_serializers_write_and_read_records(broker, client):
    topic, schema = "typed", record_schema("amount", name="Order")
    with bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic)
    serialize = AvroSerializer(client, schema)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(3):
        value = serialize({"amount": number}, SerializationContext(topic, MessageField.VALUE))
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "typed", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    deserialize = AvroDeserializer(client)
    try:
        records = consumer.consume(3, WAIT_S)
        found = [
            deserialize(each.value(), SerializationContext(topic, MessageField.VALUE)) for each in records
        ]
    finally:
        consumer.close()
    assert found == [{"amount": 0}, {"amount": 1}, {"amount": 2}]
    assert client.get_versions("typed-value") == [1]


def test_operators_see_health_and_metrics(broker, client):
    client.register_schema("watched", Schema('"int"', "AVRO"))
    client.get_subjects()
    with urllib.request.urlopen(f"{broker.registry_url}/health", timeout=WAIT_S) as answer:
        health = json.load(answer)
    assert (health["status"], health["is_leader"], health["leader"]) == ("ready", True, broker.registry_url)
    with urllib.request.urlopen(f"{broker.registry_url}/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    assert 'bowstring_registry_request_seconds_count{method="GET",route="/subjects",status="200"}' in text
    assert "bowstring_registry_is_leader 1.0" in text
