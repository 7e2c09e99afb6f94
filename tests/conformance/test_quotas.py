"""Client quotas with librdkafka: its clients report that they are throttled, and lose nothing."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from bowstring.clients.admin.admin import Admin
from tests.support.waiting import HANG_S, wait_until

RECORDS = 20
VALUE = b"x" * 1000
CLIENT = "quota-test"


@pytest.fixture
def limit(bootstrap: str) -> Iterator[Callable[..., None]]:
    """Sets quotas of the test's client id."""
    with Admin(bootstrap, timeout_ms=int(HANG_S * 1000)) as admin:
        yield lambda **quotas: admin.alter_client_quotas({"client-id": CLIENT}, quotas)
        admin.alter_client_quotas(
            {"client-id": CLIENT}, dict.fromkeys(("producer_byte_rate", "consumer_byte_rate"))
        )


def test_throttled_clients_of_librdkafka_lose_nothing(
    bootstrap: str, make_topic: Callable[..., str], limit: Callable[..., None]
) -> None:
    topic = make_topic(1)
    throttles: list[float] = []
    common = {
        "bootstrap.servers": bootstrap,
        "client.id": CLIENT,
        "throttle_cb": lambda event: throttles.append(event.throttle_time),
    }
    limit(producer_byte_rate=200.0)
    producer = confluent_kafka.Producer(common | {"linger.ms": 50})
    failed: list[object] = []
    for _ in range(RECORDS):
        producer.produce(topic, VALUE, on_delivery=lambda error, _: failed.extend([error] if error else []))
    producer.flush(HANG_S)
    wait_until(lambda: producer.poll(0.01) is not None and bool(throttles), "a throttled producer")
    assert not failed
    assert max(throttles) > 1

    throttles.clear()
    limit(consumer_byte_rate=500.0)
    consumer = confluent_kafka.Consumer(common | {"group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        read = consumer.consume(RECORDS, HANG_S)
        assert [(each.error(), each.value()) for each in read] == [(None, VALUE)] * RECORDS
        wait_until(lambda: consumer.poll(0.01) is None and bool(throttles), "a throttled consumer")
    finally:
        consumer.close()
