"""Written by one client, read by all: every client's batches in every codec, and one topic that all wrote to."""

from collections.abc import Callable

import pytest

from tests.conformance.drivers import CLIENTS, CODECS, Session


@pytest.mark.parametrize("writer", list(CLIENTS))
def test_every_client_reads_every_codec_of(
    writer: str, session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    expected = []
    for codec in CODECS:
        records = [
            {
                "partition": 0,
                "key": b"%d" % i,
                "value": codec.encode() * 30,
                "headers": [("codec", codec.encode())],
            }
            for i in range(20)
        ]
        session(writer).produce(topic, records, compression=codec)
        expected += [(each["key"], each["value"], each["headers"]) for each in records]
    for reader in CLIENTS:
        got = session(reader).consume(topic, len(expected))
        assert [(each["key"], each["value"], each["headers"]) for each in got] == expected, (
            f"read by {reader}"
        )
        assert [each["offset"] for each in got] == list(range(len(expected)))


def test_all_clients_write_one_topic(
    session: Callable[[str], Session], make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3)
    for turn, (name, codec) in enumerate((name, codec) for name in CLIENTS for codec in ("none", "zstd")):
        records = [{"partition": i % 3, "value": b"%s %d %d" % (name.encode(), turn, i)} for i in range(30)]
        session(name).produce(topic, records, compression=codec)
    total = len(CLIENTS) * 2 * 30
    reference = session("java").consume(topic, total, partitions=3)
    assert len(reference) == total
    for name in CLIENTS:
        got = session(name).consume(topic, total, partitions=3)
        facts = ("partition", "offset", "timestamp", "value")
        assert [[each[fact] for fact in facts] for each in got] == [
            [each[fact] for fact in facts] for each in reference
        ], f"read by {name}"
