"""Offsets by position and by timestamp, reads from the middle, and topics of 200,000 records."""

from collections.abc import Callable

import pytest

from tests.conformance.drivers import CLIENTS, Session, flooded

LARGE = 200_000
BASE_MS = 1_700_000_000_000


def test_offsets_by_timestamp(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    stamps = [BASE_MS + 10 * i for i in range(100)]
    for stamp in range(0, 100, 25):
        batch = [{"partition": 1, "value": b"v", "timestamp": each} for each in stamps[stamp : stamp + 25]]
        client.produce(topic, batch)
    asked = [0, BASE_MS, BASE_MS + 1, BASE_MS + 500, BASE_MS + 985, BASE_MS + 990, BASE_MS + 991]
    found = client.call("offsets_for_times", topic=topic, partition=1, timestamps=asked)["offsets"]
    if client.name == "kafkajs":
        # KafkaJS answers the end of the partition where no record is that young.
        found[-1] = None if found[-1] == 100 else found[-1]
    assert found == [0, 0, 1, 50, 99, 99, None]


def test_offsets_by_timestamp_out_of_order(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    for offset, stamp in enumerate([500, 100, 900, 300, 900, 700]):
        client.produce(topic, [{"partition": 0, "value": b"%d" % offset, "timestamp": BASE_MS + stamp}])
    asked = [BASE_MS + each for each in (50, 400, 501, 800, 900)]
    found = client.call("offsets_for_times", topic=topic, partition=0, timestamps=asked)["offsets"]
    # The first record at or after the time, in offset order.
    assert found == [0, 0, 2, 2, 2]


def test_bounds_of_a_partition(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    assert client.call("bounds", topic=topic, partition=0) == {"earliest": 0, "latest": 0}
    client.produce(topic, [{"partition": 0, "value": b"%d" % i} for i in range(7)])
    assert client.call("bounds", topic=topic, partition=0) == {"earliest": 0, "latest": 7}
    assert client.call("bounds", topic=topic, partition=1) == {"earliest": 0, "latest": 0}


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_reading_from_inside_a_batch(client: Session, codec: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    client.produce(topic, [{"partition": 0, "value": b"%d" % i} for i in range(100)], compression=codec)
    got = client.consume(topic, 37, offset=63)
    assert [each["offset"] for each in got] == list(range(63, 100))
    assert [each["value"] for each in got] == [b"%d" % i for i in range(63, 100)]


@pytest.fixture(scope="module")
def summary_of_large() -> dict[str, object]:
    return flooded(LARGE)


def test_large_topic(
    client: Session, make_topic: Callable[..., str], summary_of_large: dict[str, object]
) -> None:
    topic = make_topic(4, segment_bytes=str(4 << 20))
    client.flood(topic, 4, LARGE, compression="lz4")
    assert client.summarize(topic, LARGE, 4) == summary_of_large


def test_large_topic_read_by_all(
    session: Callable[[str], Session], make_topic: Callable[..., str], summary_of_large: dict[str, object]
) -> None:
    topic = make_topic(2)
    session("franz-go").flood(topic, 2, LARGE)
    for name in CLIENTS:
        assert session(name).summarize(topic, LARGE, 2) == summary_of_large, f"read by {name}"
