"""Headers rewritten by the broker, and batches recompressed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.record import batch
from bowstring._native.record.compression import CompressionError, DecompressedTooLarge, compress
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from bowstring._native.server.recompress import recompress
from tests.support import reference_batch as reference
from tests.support.examples import examples
from tests.support.strategies import NOW_MS, batches

TWO = reference.Batch(((b"k", b"v", NOW_MS, ()), (None, b"w", NOW_MS + 5, ())))
KEPT = (
    *("base_offset", "leader_epoch", "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id"),
    *("producer_epoch", "base_sequence", "record_count", "transactional", "timestamp_type"),
)


@settings(max_examples=examples(60))
@given(batches, st.integers(0, 4), st.integers(0, 4))
def test_recompress_keeps_header_and_records(made, before, after):
    plain = reference.encode(made)
    packed = recompress(plain, before)
    again = recompress(packed, after)
    assert decode_batches(again) == decode_batches(packed) == decode_batches(plain)
    old, new = batch_headers(plain)[0], batch_headers(again)[0]
    assert new.codec == after
    assert [getattr(new, name) for name in KEPT] == [getattr(old, name) for name in KEPT]
    assert recompress(again, 0) == plain
    assert batch.validate(again, now_ms=NOW_MS)[0] == batch.validate(plain, now_ms=NOW_MS)[0] == 0


def test_the_codec_it_has_already_changes_nothing():
    packed = encode_batch([(None, b"v", 1, ())], 3)
    assert recompress(packed, 3) == packed


def test_recompress_refuses_what_it_cannot_read():
    plain = reference.encode(TWO)
    for bad in (plain[:-1], plain[:-1] + b"!", b""):
        with pytest.raises(CorruptBatch, match="invalid header or fails its CRC-32C"):
            recompress(bad, 4)
    compressed = replace(TWO, attributes=4)
    with pytest.raises(CorruptBatch, match="cannot be read: zstd records are corrupt"):
        recompress(reference.seal(compressed, b"rubbish"), 1)
    with pytest.raises(CorruptBatch, match="record is malformed"):
        recompress(reference.seal(compressed, compress(4, b"rubbish")), 1)
    with pytest.raises(CorruptBatch, match="record is malformed"):
        recompress(reference.seal(TWO, b"rubbish"), 1)
    with pytest.raises(DecompressedTooLarge):
        recompress(reference.seal(compressed, compress(4, bytes(1000))), 1, limit=999)
    with pytest.raises(CompressionError, match="unknown compression codec 9"):
        recompress(plain, 9)


def test_assigned_changes_what_the_crc_does_not_cover():
    data = batch.assigned(reference.encode(TWO), 1 << 40, 7)
    assert data == reference.encode(replace(TWO, base_offset=1 << 40, leader_epoch=7))
    assert [record.offset for record in decode_batches(data)] == [1 << 40, (1 << 40) + 1]


def test_stamped_is_a_log_append_time_batch():
    data = batch.stamped(reference.encode(TWO), NOW_MS + 99)
    assert data == reference.encode(replace(TWO, attributes=8, max_timestamp=NOW_MS + 99))
    assert {record.timestamp for record in decode_batches(data)} == {NOW_MS + 99}


def test_a_wrong_max_timestamp_is_put_right():
    wrong = reference.encode(replace(TWO, max_timestamp=1))
    assert batch.validate(wrong, now_ms=NOW_MS) == (0, None, [])
    assert batch.corrected(wrong, NOW_MS + 5) == reference.encode(TWO)
    assert batch.corrected(reference.encode(TWO), NOW_MS + 5) == reference.encode(TWO)


def test_less_than_a_header_is_no_batch():
    for change in (
        lambda d: batch.assigned(d, 0, 0),
        lambda d: batch.stamped(d, 0),
        lambda d: batch.corrected(d, 0),
    ):
        with pytest.raises(ValueError, match="60 bytes are not a record batch"):
            change(bytes(60))
