"""What one client writes it reads back: keys, values, headers, codecs, acks, sizes and timestamps."""

import random
import time
from collections.abc import Callable

import pytest

from tests.conformance.drivers import CODECS, DriverError, Json, Session, clients_with

MIB = 1 << 20
MESSAGE_TOO_LARGE = 10
INVALID_TIMESTAMP = 32
INVALID_RECORD = 87

EMPTY: Json = {"key": None, "value": None}
SHAPES: list[Json] = [
    {"key": b"key", "value": b"value"},
    {"key": None, "value": b"no key"},
    {"key": b"tombstone", "value": None},
    EMPTY,
    {"key": b"", "value": b""},
    {"key": b"\x00\xff", "value": bytes(range(256))},
    {
        "key": b"h",
        "value": b"headers",
        "headers": [("a", b"1"), ("a", b"2"), ("empty", b""), ("ü", b"\x00\xfe")],
    },
]


def plain(record: Json) -> Json:
    """What must come back of a record."""
    return {field: record.get(field) for field in ("key", "value")} | {"headers": record.get("headers", [])}


def test_every_shape_of_record_comes_back(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    shapes = [each for each in SHAPES if each != EMPTY or "empty_record" not in client.client.lacks]
    sent = client.produce(topic, [{"partition": 0, **shape} for shape in shapes])
    assert [each["offset"] for each in sent] == list(range(len(shapes)))
    got = client.consume(topic, len(shapes))
    assert [plain(each) for each in got] == [plain(each) for each in shapes]


@pytest.mark.parametrize("name", clients_with("null_header"))
def test_null_header_value(
    name: str, session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic, client = make_topic(), session(name)
    client.produce(topic, [{"partition": 0, "value": b"v", "headers": [("null", None)]}])
    (got,) = client.consume(topic, 1)
    assert got["headers"] == [("null", None)]


@pytest.mark.parametrize("codec", CODECS)
def test_codec(client: Session, codec: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    records = [{"partition": i % 2, "key": b"%d" % i, "value": b"text %d " % i * 20} for i in range(200)]
    client.produce(topic, records, compression=codec)
    got = client.consume(topic, len(records), partitions=2)
    expected = [plain(each) for part in (0, 1) for each in records if each["partition"] == part]
    assert [plain(each) for each in got] == expected


@pytest.mark.parametrize(("acks", "idempotent"), [("0", False), ("1", False), ("all", False), ("all", True)])
def test_acks(client: Session, acks: str, idempotent: bool, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    records = [{"partition": 0, "value": b"%d" % i} for i in range(50)]
    client.produce(topic, records, acks=acks, idempotent=idempotent)
    got = client.consume(topic, 50)
    assert [each["value"] for each in got] == [b"%d" % i for i in range(50)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_one_mib_record(client: Session, codec: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(max_message_bytes=str(2 * MIB))
    value = random.Random(1).randbytes(MIB)
    client.produce(
        topic,
        [{"partition": 0, "value": value}, {"partition": 0, "value": b"small"}],
        compression=codec,
        large=True,
    )
    got = client.consume(topic, 2)
    assert [each["value"] for each in got] == [value, b"small"]


def test_record_over_the_topic_limit_is_refused(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic(max_message_bytes="10000")
    with pytest.raises(DriverError) as raised:
        client.produce(topic, [{"partition": 0, "value": random.Random(2).randbytes(20000)}])
    assert raised.value.code == MESSAGE_TOO_LARGE or "TooLarge" in str(raised.value), raised.value
    client.produce(topic, [{"partition": 0, "value": b"fits"}])
    assert [each["value"] for each in client.consume(topic, 1)] == [b"fits"]


def test_create_time_is_kept(client: Session, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    stamps = [1_000_000_000_000, 1_600_000_000_123, 1_500_000_000_000]
    client.produce(topic, [{"partition": 0, "value": b"v", "timestamp": stamp} for stamp in stamps])
    got = client.consume(topic, 3)
    assert [each["timestamp"] for each in got] == stamps
    assert {each["timestamp_type"] for each in got} <= {0, None}


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_replaces_the_timestamp(
    client: Session, codec: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    records = [{"partition": 0, "value": b"v", "timestamp": 1_000_000_000_000 + i} for i in range(3)]
    client.produce(topic, records, compression=codec)
    after = int(time.time() * 1000)
    got = client.consume(topic, 3)
    assert all(before <= each["timestamp"] <= after for each in got), (before, got, after)
    assert {each["timestamp_type"] for each in got} <= {1, None}


@pytest.mark.parametrize("name", ["confluent", "franz-go", "java"])
def test_timestamp_outside_the_topics_window(
    name: str, session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic = make_topic(message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="3600000")
    client, now = session(name), int(time.time() * 1000)
    for stamp in (now - 2 * 3600_000, now + 2 * 3600_000):
        with pytest.raises(DriverError) as raised:
            client.produce(topic, [{"partition": 0, "value": b"v", "timestamp": stamp}])
        assert raised.value.code == INVALID_TIMESTAMP
    client.produce(topic, [{"partition": 0, "value": b"now", "timestamp": now}])
    assert [each["value"] for each in client.consume(topic, 1)] == [b"now"]


@pytest.mark.parametrize("codec", [each for each in CODECS if each != "none"])
def test_topic_compression_type_recompresses(
    codec: str, session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic = make_topic(compression_type=codec)
    records = [{"partition": 0, "key": b"k", "value": b"x" * 500 + b"%d" % i} for i in range(20)]
    session("java").produce(topic, records)
    for name in ("java", "confluent"):
        got = session(name).consume(topic, len(records))
        assert [each["value"] for each in got] == [each["value"] for each in records]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_compacted_topic_refuses_records_without_key(
    codec: str, session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic, java = make_topic(cleanup_policy="compact"), session("java")
    with pytest.raises(DriverError) as raised:
        java.produce(topic, [{"partition": 0, "value": b"no key"}], compression=codec)
    assert raised.value.code == INVALID_RECORD
    java.produce(topic, [{"partition": 0, "key": b"k", "value": b"v"}], compression=codec)
    assert [each["key"] for each in java.consume(topic, 1)] == [b"k"]
