"""A producer's settings, in the words of every client; nothing is set silently wrong."""

import inspect

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.config import PRODUCER
from bowstring.clients.producer.partitioner import PARTITIONERS
from bowstring.clients.producer.producer import Producer
from tests.support.fake_broker import FakeBroker

# `key` and `value` are formats of typed columns, which no other client has a setting for.
ARGUMENTS = set(inspect.signature(Producer.__init__).parameters) - {"self", "key", "value"}


def test_every_row_names_an_argument_or_a_reason_and_every_argument_has_a_row():
    for row in PRODUCER.rows.values():
        assert bool(row.argument) != bool(row.reason), row
        assert not row.argument or row.argument in ARGUMENTS, row
    assert {row.argument for row in PRODUCER.rows.values() if row.argument} == ARGUMENTS


def test_settings_of_confluent_kafka():
    assert PRODUCER.arguments(
        {
            "bootstrap.servers": "a:1",
            "acks": "all",
            "queue.buffering.max.kbytes": "1024",
            "queue.buffering.max.ms": "0.5",
            "compression.codec": "zstd",
            "message.timeout.ms": 5000,
            "max.in.flight": "1",
            "enable.idempotence": "true",
            "partitioner": "consistent_random",
        }
    ) == {
        "bootstrap_servers": "a:1",
        "acks": -1,
        "buffer_memory": 1 << 20,
        "linger_ms": 0.5,
        "compression": "zstd",
        "delivery_timeout_ms": 5000,
        "max_in_flight": 1,
        "idempotent": True,
        "partitioner": "consistent_random",
    }


def test_settings_of_java_and_kafka_python_work():
    java = {
        "bootstrap.servers": "127.0.0.1:1",
        "retries": 2147483647,
        "compression.type": "lz4",
        "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    }
    Producer(java).close(0)
    Producer(
        bootstrap_servers=["127.0.0.1:1"], max_in_flight_requests_per_connection=2, compression_type=None
    ).close(0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linger.msec": 5}, r"no setting 'linger.msec'; did you mean linger.ms\?"),
        ({"transactional.id": "t", "acks": "1"}, r"transactional_id needs acks"),
        ({"transactional.id": ""}, r"transactional_id is empty"),
        ({"batch.size": "many"}, r"batch.size is 'many'"),
        ({"linger.ms": 5, "queue.buffering.max.ms": 6}, r"both set linger_ms"),
        ({"acks": "2"}, r"acks"),
        ({"partitioner": "nearest"}, r"murmur2_random"),
        ({"max.in.flight": 6}, r"1 to 5"),
        ({"security.protocol": "TLS"}, r"PLAINTEXT"),
        ({"queue.buffering.max.messages": 10}, r"buffer_memory"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Producer(settings)


def test_serializers_make_the_bytes():
    with FakeBroker() as broker:
        producer = Producer(
            broker.bootstrap,
            key_serializer=lambda key: str(key).encode(),
            value_serializer=lambda value: None if value is None else repr(value).encode(),
            linger_ms=60_000,
        )
        producer.send("t", {"a": 1}, 5)
        (queue,) = producer.accumulator.queues.values()
        batch = queue.waiting[0]
        batch.seal((-1, -1), -1, 0, None)
        assert b"{'a': 1}" in bytes(batch.wire())
        producer.close(0)


def test_all_partitioners_are_documented():
    for name in PARTITIONERS:
        assert f'"{name}"' in Producer.__doc__
