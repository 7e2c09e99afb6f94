"""Clients and batches that a topic refuses: which records failed, and which are split and sent again."""

import time
from collections.abc import Callable

import pytest

from bowstring._native.record.decode import batch_headers
from tests.conformance.drivers import CODECS, Driver, Json, Session, encode, flooded
from tests.support.target import Broker

# What each client calls a record that is bad, and one that only shared a batch with bad ones.
KINDS = {
    "java": ("InvalidRecordException", "KafkaException"),
    "confluent": ("INVALID_RECORD", "_INVALID_DIFFERENT_RECORD"),
}


def outcomes(client: Session, topic: str, records: list[Json], codec: str) -> list[Json]:
    """What became of each record, all sent as one batch."""
    handle = client.driver.handle()
    options = {"acks": "all", "compression": codec, "idempotent": True, "linger_ms": 500}
    client.call("produce_open", handle=handle, **options)
    try:
        coded = [encode({"partition": 0, **record}) for record in records]
        sent = client.call("produce", handle=handle, topic=topic, records=coded, outcomes=True)
    finally:
        client.call("produce_close", handle=handle)
    return list(sent["results"])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", KINDS)
def test_clients_know_which_records_failed(
    where: str, name: str, codec: str, drivers: Callable[[str], Driver]
) -> None:
    """KIP-467: the same with Apache Kafka and with Bowstring."""
    client, now = Session(drivers(name), where), int(time.time() * 1000)
    bad_kind, other_kind = KINDS[name]
    for what, configs, bad, good in (
        ("keys", {"cleanup.policy": "compact"}, {"key": None}, {"key": b"k"}),
        (
            "times",
            {"message.timestamp.before.max.ms": "3600000"},
            {"timestamp": now - 7_200_000},
            {"timestamp": now},
        ),
    ):
        topic = f"refused-{name}-{codec}-{what}"
        client.call("create_topic", topic=topic, partitions=1, configs=configs)
        records = [{"value": b"%d" % i, **(bad if i % 10 == 0 else good)} for i in range(30)]
        told = outcomes(client, topic, records, codec)
        assert [each["error"]["kind"] for each in told] == [
            bad_kind if i % 10 == 0 else other_kind for i in range(30)
        ]
        assert all(each["error"]["message"] for each in told)
        again = [
            record for record, each in zip(records, told, strict=True) if each["error"]["kind"] == other_kind
        ]
        assert [each.get("offset") for each in outcomes(client, topic, again, codec)] == list(range(27))


def test_javas_producer_divides_what_recompression_makes_too_large(
    own_broker: Broker, drivers: Callable[[str], Driver]
) -> None:
    """Its batches grow as they compress, until one does not fit without compression: it is split and sent again."""
    java = Session(drivers("java"), own_broker.bootstrap)
    configs = {"compression.type": "uncompressed", "max.message.bytes": "20000"}
    java.call("create_topic", topic="divided", partitions=1, configs=configs)
    java.flood("divided", 1, 60_000, size=100, compression="gzip")
    assert java.summarize("divided", 60_000) == flooded(60_000)
    own_broker.stop()
    (log,) = (own_broker.data / "divided-0").glob("*.log")
    headers = batch_headers(log.read_bytes())
    assert max(header.size_bytes for header in headers) <= 20_000
    assert {header.codec for header in headers} == {0}
