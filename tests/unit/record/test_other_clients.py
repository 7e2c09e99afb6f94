"""Batches exchanged with the encoders and decoders of other clients, in both directions."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from bowstring._native.record import batch, compression
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.server.recompress import validate_compressed
from tests.support.librdkafka_peer import MockBroker
from tests.support.strategies import NOW_MS

RECORDS = [
    (
        None if i % 5 == 0 else b"key-%d" % i,
        None if i % 7 == 0 else b"v" * (i * 13 % 700),
        NOW_MS + i * 1000 - 300 * (i % 3),
        (("h", b"x" * i), ("null", None), ("é", b"")) if i % 4 == 0 else (),
    )
    for i in range(100)
]
codecs = pytest.mark.parametrize("codec", range(5), ids=compression.CODECS)
clients = pytest.mark.parametrize(
    ("builder", "reader"),
    [(KafkaPythonBuilder, KafkaPythonBatch), (AioBuilder, AioBatch)],
    ids=["kafka-python", "aiokafka"],
)


def plain(record):
    return record.key, record.value, record.timestamp, record.headers


def accepted(data):
    assert batch.validate(data, now_ms=NOW_MS) == (0, None, [])
    if batch_headers(data)[0].codec:
        assert validate_compressed(data, now_ms=NOW_MS) == (0, None, [])
    return True


def built_by(builder_class, codec):
    builder = builder_class(
        magic=2, compression_type=codec, is_transactional=0, producer_id=9, producer_epoch=2, base_sequence=77,
        batch_size=1 << 24,
    )  # fmt: skip
    for i, (key, value, timestamp, headers) in enumerate(RECORDS):
        builder.append(i, timestamp, key, value, list(headers))
    return bytes(builder.build())


@codecs
@clients
def test_their_batches_are_accepted_and_decoded(builder, reader, codec):
    data = built_by(builder, codec)
    assert accepted(data)
    assert [plain(record) for record in decode_batches(data)] == RECORDS
    header = batch_headers(data)[0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 77)


@clients
def test_uncompressed_bytes_are_the_same(builder, reader):
    fields = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 77}
    ours = bytearray(encode_batch(RECORDS, **fields))
    theirs = bytearray(built_by(builder, 0))
    ours[12:16] = theirs[12:16] = bytes(4)  # leader epoch: the broker's to fill in
    assert ours == theirs


@codecs
@clients
def test_they_decode_ours(builder, reader, codec):
    theirs = reader(encode_batch(RECORDS, codec, base_offset=5))
    assert theirs.validate_crc()
    decoded = [(r.key, r.value, r.timestamp, tuple(r.headers)) for r in theirs]
    assert decoded == RECORDS
    assert theirs.base_offset == 5


@pytest.fixture(scope="module")
def mock_broker():
    return MockBroker()


@codecs
def test_librdkafka_writes_what_we_decode(mock_broker, codec):
    topic = f"theirs-{compression.CODECS[codec]}"
    mock_broker.write(topic, RECORDS, {"compression.type": compression.CODECS[codec]})
    data = mock_broker.fetch_raw(topic, len(RECORDS))
    assert [plain(record) for record in decode_batches(data)] == RECORDS
    # It leaves a batch as it is that would not become smaller, as one of a single small record.
    found = [header.codec for header in batch_headers(data)]
    assert codec in found and set(found) <= {0, codec}
    for header in batch_headers(data):
        one = data[header.position : header.position + header.size_bytes]
        assert accepted(batch.assigned(one, 0, -1))


@codecs
def test_librdkafka_reads_what_we_encode(mock_broker, codec):
    topic = f"ours-{compression.CODECS[codec]}"
    mock_broker.produce_raw(topic, encode_batch(RECORDS, codec))
    assert mock_broker.read(topic, len(RECORDS)) == RECORDS
