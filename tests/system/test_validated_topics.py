"""A topic that requires schemas, a broker with its registry, and confluent-kafka's serializers."""

import struct

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bowstring import Admin, Broker
from tests.support.waiting import HANG_S

ORDER = '{"type":"record","name":"Order","fields":[{"name":"pears","type":"int"}]}'
OTHER = '{"title":"Order","type":"object","properties":{"pears":{"type":"integer"}}}'


def delivered(producer, value):
    errors = []
    producer.produce("orders", value, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(HANG_S) == 0
    return errors[0]


def test_only_records_with_a_registered_schema_get_in():
    context = SerializationContext("orders", MessageField.VALUE)
    with Broker(registry=True) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 1, 1, {"confluent.value.schema.validation": "true"})
        registry = SchemaRegistryClient({"url": broker.registry_url, "max.retries": 5})
        serialize = AvroSerializer(registry, ORDER)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        assert delivered(producer, serialize({"pears": 3}, context)) is None
        refused = delivered(producer, b"3 pears")
        assert refused.name() == "INVALID_RECORD"
        elsewhere = registry.register_schema("elsewhere-value", Schema(OTHER, "JSON"))
        assert delivered(producer, struct.pack(">bI", 0, elsewhere) + b"{}").name() == "INVALID_RECORD"
        assert delivered(producer, serialize({"pears": 4}, context)) is None
        assert delivered(producer, None) is None
