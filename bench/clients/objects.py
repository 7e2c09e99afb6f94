"""Reads values of ten fields as dicts: our consumer with a format; confluent-kafka and a decoder.

The decoders are what each library's users take: orjson, the quickest reader of JSON for Python, and
confluent-kafka's own AvroDeserializer, with a registry in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.clients.consumers import CONFLUENT_BATCH, CONFLUENT_TUNED, TIMEOUT_S
from bench.clients.settings import Settings

if TYPE_CHECKING:
    from bowstring.values.format import ValueFormat

# As confluent-kafka's registry in memory numbers its first schema.
SCHEMA_ID = 1
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "country", "type": "string"},
        {"name": "email", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "quantity", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "at", "type": "long"},
        {"name": "note", "type": "string"},
    ],
}
COUNTRIES = ("DE", "FR", "US", "BR", "JP")
Decode = Callable[[bytes], Any]


def order(number: int) -> dict[str, Any]:
    """The value of the record with this number: few of its texts and numbers come twice soon."""
    customer = number * 7919 % 100_000
    return {
        "id": number,
        "customer": customer,
        "item": f"article {number * 31 % 5_000}",
        "country": COUNTRIES[number % 5],
        "email": f"user{customer}@example.com",
        "price": number * 37 % 100_000 / 100,
        "quantity": number % 9 + 1,
        "paid": number % 3 == 0,
        "at": 1_764_500_000_000 + 13 * number,
        "note": f"leave it at door {number % 1_000}",
    }


def json_format() -> ValueFormat:
    """The format of JSON values: the columns of AVRO."""
    import bowstring

    return bowstring.Json(bowstring.Avro(AVRO).schema)


def avro_format() -> ValueFormat:
    """The format of Avro values with the schema's id."""
    import bowstring

    return bowstring.Avro(AVRO, framing="confluent", schemas={SCHEMA_ID: AVRO}, schema_id=SCHEMA_ID)


def bowstring_poll_json(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll` of a Consumer whose values are JSON."""
    return _ours(bootstrap, topic, records, json_format())


def bowstring_poll_avro(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`poll` of a Consumer whose values are Avro with a schema's id."""
    return _ours(bootstrap, topic, records, avro_format())


def _ours(bootstrap: str, topic: str, records: int, form: ValueFormat) -> Callable[[], int]:
    import bowstring

    consumer = bowstring.Consumer(bootstrap, auto_offset_reset="earliest", value=form)
    partitions = consumer.partitions_for(topic)

    def run() -> int:
        consumer.assign(partitions)
        seen = total = 0
        while seen < records:
            found = consumer.poll(TIMEOUT_S)
            if not found:
                break
            for record in found:
                total += record.value["quantity"]
            seen += len(found)
        return seen if total > seen else 0

    return run


def confluent_json(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`consume` of 10,000 messages at once and `orjson.loads` of each value."""
    return _confluent(bootstrap, topic, records, {}, _orjson())


def confluent_json_tuned(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """The same with the settings that make it read ahead."""
    return _confluent(bootstrap, topic, records, CONFLUENT_TUNED, _orjson())


def confluent_avro(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """`consume` of 10,000 messages at once and AvroDeserializer for each value."""
    return _confluent(bootstrap, topic, records, {}, _avro_deserializer(topic))


def confluent_avro_tuned(bootstrap: str, topic: str, records: int) -> Callable[[], int]:
    """The same with the settings that make it read ahead."""
    return _confluent(bootstrap, topic, records, CONFLUENT_TUNED, _avro_deserializer(topic))


def _orjson() -> Decode:
    import orjson

    loads: Decode = orjson.loads
    return loads


def _avro_deserializer(topic: str) -> Decode:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    assert registry.register_schema(f"{topic}-value", Schema(json.dumps(AVRO), "AVRO")) == SCHEMA_ID
    decode, context = AvroDeserializer(registry), SerializationContext(topic, MessageField.VALUE)
    return lambda value: decode(value, context)


def _confluent(
    bootstrap: str, topic: str, records: int, settings: Settings, decode: Decode
) -> Callable[[], int]:
    import confluent_kafka

    group = {"group.id": f"bench-{topic}", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **group, **settings})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions

    def run() -> int:
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        seen = total = 0
        while seen < records:
            messages = consumer.consume(CONFLUENT_BATCH, TIMEOUT_S)
            if not messages:
                break
            for message in messages:
                total += decode(message.value())["quantity"]
            seen += len(messages)
        return seen if total > seen else 0

    return run
