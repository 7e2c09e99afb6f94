"""Batches that the control thread recompresses or looks into: order, codec, keys."""

import time

import pytest

from bowstring._native.decode import batch_headers, decode_batches
from bowstring._native.encode import encode_batch
from bowstring.engine.errors import Errors
from bowstring.engine.protocol import decode_response, encode_request
from bowstring.engine.protocol.messages import produce as p

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD, "uncompressed": NONE}


def batch(value: bytes, codec: int = NONE, key: bytes | None = None, **fields) -> bytes:
    return encode_batch([(key, value, time.time_ns() // 1_000_000, [])], codec, **fields)


def stored(served, topic="t") -> bytes:
    served.stop()
    data = (served.directory / f"{topic}-0" / "00000000000000000000.log").read_bytes()
    served.start()
    return data


@pytest.mark.parametrize("name", CODECS)
def test_every_codec_becomes_the_topics(served, name):
    served.create_topic("t", compression_type=name)
    for codec in range(5):
        assert served.produce("t", batch(b"v" * 500, codec)).error_code == 0
    data = stored(served)
    assert {header.codec for header in batch_headers(data)} == {CODECS[name]}
    assert [(record.offset, record.value) for record in decode_batches(data)] == [
        (offset, b"v" * 500) for offset in range(5)
    ]


def test_the_order_of_a_producer_stays(served):
    """Large batches take longer to compress than small ones behind them."""
    served.create_topic("t", compression_type="gzip")
    sizes = [200_000 if i % 3 == 0 else 10 for i in range(30)]
    for i, size in enumerate(sizes):
        fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": i}
        data = p.TopicProduceData(
            name="t",
            partition_data=[
                p.PartitionProduceData(index=0, records=batch(b"%d " % i + bytes(size), **fields))
            ],
        )
        request = p.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data])
        served.client.send(encode_request(request, 9, i, None))
    for i in range(len(sizes)):
        correlation_id, response = decode_response(0, 9, served.client.receive())
        (answer,) = response.responses[0].partition_responses
        assert (correlation_id, answer.error_code, answer.base_offset) == (i, 0, i)
    values = [int(record.value.split(b" ")[0]) for record in decode_batches(stored(served))]
    assert values == list(range(30))


def test_levels_are_the_topics(served):
    served.create_topic("low", compression_type="zstd", compression_zstd_level="1")
    served.create_topic("high", compression_type="zstd", compression_zstd_level="19")
    text = b"".join(b"%d %x;" % (i, i * 2654435761 % 65521) for i in range(20_000))
    for topic in ("low", "high"):
        assert served.produce(topic, batch(text)).error_code == 0
    assert len(stored(served, "high")) < len(stored(served, "low"))


def test_keys_are_looked_for_inside_compressed_batches(served):
    served.create_topic("t", cleanup_policy="compact")
    for codec in range(5):
        refused = served.produce("t", batch(b"v", codec))
        assert Errors.of(refused.error_code) is Errors.INVALID_RECORD
        assert served.produce("t", batch(b"v", codec, key=b"k")).error_code == 0
