"""Batches that the control thread recompresses or looks into: order, codec, keys."""

import random
import time

import pytest

from bowstring._native.record.compression import compress
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.server.recompress import recompress
from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import produce as p
from tests.support.memory import resident_bytes, resident_slack
from tests.support.reference_batch import Batch, encode_records, seal
from tests.support.waiting import FOR_EVER_MS

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
        request = p.ProduceRequest(acks=1, timeout_ms=FOR_EVER_MS, topic_data=[data])
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


def of_records(*records, codec=NONE) -> bytes:
    """A batch of (key, age in seconds)."""
    now = time.time_ns() // 1_000_000
    return encode_batch([(key, b"v", now - age * 1000, []) for key, age in records], codec)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("wanted", ["producer", "gzip", "uncompressed"])
def test_records_refused_inside_compressed_batches_are_named(served, codec, wanted):
    served.create_topic("keys", cleanup_policy="compact", compression_type=wanted)
    served.create_topic("times", message_timestamp_before_max_ms="60000", compression_type=wanted)
    served.create_topic("ahead", message_timestamp_after_max_ms="60000", compression_type=wanted)
    keys = [(None if i % 10 == 0 else b"k", 0) for i in range(30)]
    times = [(b"k", 3600 if i in (3, 5) else 0) for i in range(9)]
    ahead = [(b"k", -3600 if i == 7 else 0) for i in range(9)]
    for topic, records, error, places in (
        ("keys", keys, Errors.INVALID_RECORD, [0, 10, 20]),
        ("times", times, Errors.INVALID_TIMESTAMP, [3, 5]),
        ("ahead", ahead, Errors.INVALID_TIMESTAMP, [7]),
    ):
        refused = served.produce(topic, of_records(*records, codec=codec))
        assert Errors.of(refused.error_code) is error
        assert [each.batch_index for each in refused.record_errors] == places
        assert all(each.batch_index_error_message for each in refused.record_errors)
        assert refused.error_message.startswith(f"{len(places)} record")
        good = [record for i, record in enumerate(records) if i not in places]
        assert served.produce(topic, of_records(*good, codec=codec)).error_code == 0


def test_a_million_refused_records_in_a_small_batch(served):
    served.create_topic("t", cleanup_policy="compact")
    small = encode_batch([(None, b"", time.time_ns() // 1_000_000, None)] * 1_000_000, ZSTD)
    assert len(small) < 1_000_000
    refused = served.produce("t", small)
    assert Errors.of(refused.error_code) is Errors.INVALID_RECORD
    assert [each.batch_index for each in refused.record_errors] == list(range(65_536))
    assert refused.error_message.startswith("1000000 records were refused")


def test_slow_batches_leak_nothing(served):
    """Stored and refused ones; a list of refused records takes a megabyte, and what they decompress to as much."""
    served.create_topic("t", cleanup_policy="compact", compression_type="gzip", retention_bytes="1")
    now = time.time_ns() // 1_000_000
    refused = encode_batch([(None, b"", now, None)] * 70_000, ZSTD)
    stored = encode_batch([(b"k", bytes(1 << 20), now, None)], ZSTD)

    def some(times):
        for _ in range(times):
            assert Errors.of(served.produce("t", refused).error_code) is Errors.INVALID_RECORD
            assert served.produce("t", stored).error_code == 0

    some(10)
    before = resident_bytes()
    some(40)
    assert resident_bytes() - before < (20 << 20) + resident_slack()


def test_a_broker_that_stops_while_batches_wait(served):
    """Each is stored or answered with something to try again on, or its connection is closed; none is both."""
    served.create_topic("t", compression_type="zstd", compression_zstd_level="19")
    clients = [served.connect() for _ in range(6)]
    text = b"".join(b"%d %x;" % (i, i * 2654435761 % 65521) for i in range(60_000))
    data = batch(text)
    for client in clients:
        for number in range(4):
            part = p.PartitionProduceData(index=0, records=data)
            topics = [p.TopicProduceData(name="t", partition_data=[part])]
            request = p.ProduceRequest(acks=1, timeout_ms=FOR_EVER_MS, topic_data=topics)
            client.send(encode_request(request, 9, number, None))
    served.client.close()
    clients[0].receive()
    served.broker.stop()
    acknowledged = 1
    for number, client in enumerate(clients):
        for _ in range(3 if number == 0 else 4):
            try:
                _, response = decode_response(0, 9, client.receive())
            except ConnectionError:
                break
            error = Errors.of(response.responses[0].partition_responses[0].error_code)
            # The controller takes the leadership away before: as in Kafka, a producer then looks for the leader.
            assert error in (Errors.NONE, Errors.REQUEST_TIMED_OUT, Errors.NOT_LEADER_OR_FOLLOWER)
            acknowledged += error is Errors.NONE
    served.start()
    log = (served.directory / "t-0" / "00000000000000000000.log").read_bytes()
    assert acknowledged <= len(batch_headers(log)) <= 24
    assert all(header.crc_ok for header in batch_headers(log))
    assert served.produce("t", batch(b"after")).error_code == 0


# ---------------------------------------------------------------- sizes


def test_what_a_batch_becomes_must_fit(served):
    """29 kB of gzip were stored as 30 MB."""
    served.create_topic("t", compression_type="uncompressed")
    small = batch(bytes(30_000_000), GZIP)
    assert len(small) < 30_000
    refused = served.produce("t", small)
    assert Errors.of(refused.error_code) is Errors.MESSAGE_TOO_LARGE
    assert "more than max.message.bytes=1048588" in refused.error_message
    assert refused.record_errors == []
    assert len(stored(served)) == 0


def test_the_largest_batch_that_fits(served):
    """To the byte, and after recompression."""
    plain = batch(bytes(5000))
    noise = batch(random.Random(3).randbytes(5000))
    assert len(noise) < len(recompress(noise, GZIP))
    for data, limit, name, error in (
        (recompress(plain, GZIP), len(plain), "uncompressed", Errors.NONE),
        (recompress(plain, GZIP), len(plain) - 1, "uncompressed", Errors.MESSAGE_TOO_LARGE),
        (noise, len(recompress(noise, GZIP)), "gzip", Errors.NONE),
        (noise, len(noise), "gzip", Errors.MESSAGE_TOO_LARGE),
    ):
        topic = f"t-{name}-{limit}"
        served.create_topic(topic, compression_type=name, max_message_bytes=str(limit))
        assert Errors.of(served.produce(topic, data).error_code) is error


def test_a_batch_that_becomes_larger_than_a_segment(served):
    served.create_topic(
        "t", compression_type="uncompressed", segment_bytes="1048576", max_message_bytes="5000000"
    )
    refused = served.produce("t", batch(bytes(1_500_000), ZSTD))
    assert Errors.of(refused.error_code) is Errors.RECORD_LIST_TOO_LARGE
    assert served.produce("t", batch(bytes(1_000_000), ZSTD)).error_code == 0


def test_timestamps_that_a_header_hides_are_put_right(served):
    """Kafka writes the largest timestamp into the header; so does any broker that decodes the records."""
    served.create_topic("t", cleanup_policy="compact")
    now = time.time_ns() // 1_000_000
    made = Batch(((b"k", b"v", now, ()), (b"k", b"w", now + 5, ())), attributes=GZIP, max_timestamp=now + 90)
    assert served.produce("t", seal(made, compress(GZIP, encode_records(made)))).error_code == 0
    (header,) = batch_headers(stored(served))
    assert (header.codec, header.max_timestamp) == (GZIP, now + 5)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("name", ["producer", "lz4"])
def test_a_record_too_large_once_decompressed_is_refused(served, codec, name):
    """To the byte of a record's length field; records that come uncompressed are not bounded, as in Kafka."""
    value = bytes(990)
    (plain,) = decode_batches(batch(value))
    assert plain.value == value
    body = len(encode_records(Batch(((None, value, 0, ()),)))) - 2  # without the length field itself
    for limit, error in ((body, Errors.NONE), (body - 1, Errors.INVALID_RECORD)):
        topic = f"t-{limit}"
        served.create_topic(topic, compression_type=name, max_decompressed_message_bytes=str(limit))
        answer = served.produce(topic, batch(value, codec))
        assert Errors.of(answer.error_code) is error
        if error:
            assert f"max.decompressed.message.bytes={limit}" in answer.error_message
        assert served.produce(topic, batch(bytes(5000))).error_code == 0
        assert served.produce(topic, batch(b"v", codec)).error_code == 0


def test_the_bound_of_decompressed_records_is_the_brokers_and_changes_at_once(serve):
    served = serve(max_decompressed_message_bytes="100")
    served.create_topic("t")
    assert served.produce("t", batch(bytes(90), ZSTD)).error_code == 0
    assert Errors.of(served.produce("t", batch(bytes(100), ZSTD)).error_code) is Errors.INVALID_RECORD
    served.create_topic("other", max_decompressed_message_bytes="1000")
    assert served.produce("other", batch(bytes(900), ZSTD)).error_code == 0
