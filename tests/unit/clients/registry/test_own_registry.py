"""Values by schemas of Bowstring's own registry: all types, both wire formats, beside confluent-kafka's serializers."""

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import bowstring
from tests.support.protobuf_messages import linked_class, person_classes
from tests.support.waiting import HANG_S

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
WIRES = {"prefix": prefix_schema_id_serializer, "headers": header_schema_id_serializer}


@pytest.fixture(scope="module")
def broker():
    with bowstring.Broker(registry=True) as running:
        yield running


def registry(broker, **settings):
    return bowstring.Registry(broker.registry_url, timeout=HANG_S, **settings)


def theirs(kind, url, wire):
    # A client takes the text of a schema that it looked up for the serialized form: so there are two.
    client, other = (SchemaRegistryClient({"url": url}) for _ in range(2))
    writing = {"schema.id.serializer": WIRES[wire]}
    reading = {"schema.id.deserializer": dual_schema_id_deserializer}
    if kind == "AVRO":
        return AVRO, AvroSerializer(client, AVRO, conf=writing), AvroDeserializer(other, conf=reading)
    if kind == "JSON":
        reader = JSONDeserializer(None, schema_registry_client=other, conf=reading)
        return JSON, JSONSerializer(JSON, client, conf=writing), reader
    made = linked_class()
    return made, ProtobufSerializer(made, client, writing), ProtobufDeserializer(made, reading, other)


@pytest.mark.parametrize("wire", ["prefix", "headers"])
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_both_ways(broker, kind, wire):
    topic = f"{kind}-{wire}"
    schema, serialize, deserialize = theirs(kind, broker.registry_url, wire)
    value = schema(id=7, customer={"name": "Ann"}) if kind == "PROTOBUF" else {"id": 7_000_000_000_000}
    rows = {"id": 7, "customer": {"name": "Ann"}} if kind == "PROTOBUF" else {"id": 7_000_000_000_000}
    headers = []
    data = serialize(value, SerializationContext(topic, MessageField.VALUE, headers))
    servers = broker.bootstrap_servers
    with bowstring.Producer(servers) as producer:
        producer.send(topic, data, headers=headers, partition=0).result()
    with bowstring.Producer(servers, value=registry(broker, schema=schema, wire=wire)) as producer:
        producer.send(topic, value, partition=0).result()
        producer.send_arrow(topic, pa.Table.from_pylist([{**rows, "partition": 0}])).result()
    with bowstring.Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        records = []
        while len(records) < 3:
            records += consumer.poll(HANG_S)
    assert [record.value for record in records] == [data] * 3
    assert [list(record.headers) for record in records] == [headers] * 3
    read = deserialize(data, SerializationContext(topic, MessageField.VALUE, list(records[1].headers)))
    assert read == value
    for form in (registry(broker), registry(broker, schema=schema)):
        table = bowstring.read(topic, value=form, bootstrap_servers=servers)
        assert table["value"].to_pylist() == [rows] * 3, table["value_error"].to_pylist()
    with bowstring.Consumer(servers, value=registry(broker), auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.poll(HANG_S)[0].value == rows


def test_a_schema_that_is_not_compatible(broker):
    form = registry(broker, schema=AVRO, subject="strict")
    assert form.encode_value({"id": 1})[:1] == b"\0"
    broken = AVRO.replace('"id", "type": "long"', '"name", "type": "string"')
    with pytest.raises(bowstring.SchemaRegistryError, match="compatib") as caught:
        registry(broker, schema=broken, subject="strict").encode_value({"name": "x"})
    assert caught.value.status == 409
    with pytest.raises(bowstring.SchemaRegistryError) as caught:
        registry(broker, schema=AVRO, subject="other", auto_register=False).encode_value({"id": 1})
    assert caught.value.code == 40401


def test_messages_of_one_file_are_told_apart(broker):
    customer, order = person_classes()
    topic, servers = "messages", broker.bootstrap_servers
    for value in (customer(name="Ann"), order(id=7)):
        with bowstring.Producer(servers, value=registry(broker, schema=type(value))) as producer:
            producer.send(topic, value, partition=0).result()
    with bowstring.Consumer(servers, value=registry(broker), auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in consumer.poll(HANG_S)] == [{"name": "Ann"}, {"id": 7, "item": ""}]
    table = bowstring.read(topic, value=registry(broker, schema=order), bootstrap_servers=servers)
    assert table["value"].to_pylist() == [None, {"id": 7, "item": ""}]
    assert "shop.Customer" in table["value_error"].to_pylist()[0]
