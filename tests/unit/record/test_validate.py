"""Produced batches: every defect gets Kafka's error, and the native walk agrees with the slow one."""

import struct
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.record import batch
from bowstring._native.record.decode import decode_batches
from bowstring._native.server.recompress import validate_compressed
from bowstring.protocol.errors import Errors
from tests.support import reference_batch as reference
from tests.support.examples import examples
from tests.support.reference_batch import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
    Batch,
    Rules,
    encode,
    seal,
)
from tests.support.strategies import NOW_MS, batches, rules

THREE = Batch(tuple((b"k%d" % i, b"value %d" % i, NOW_MS + i, ()) for i in range(3)))
quick = settings(max_examples=examples(200))


def verdict(data, limits=None, now_ms=NOW_MS):
    error, reason, bad_records = batch.validate(data, now_ms=now_ms, **asdict(limits or Rules()))
    assert (reason is None) == (error == 0)
    return error, bad_records


def patched(data, at, form, value):
    """A header field changed, and the CRC with it."""
    changed = bytearray(data)
    struct.pack_into(">" + form, changed, at, value)
    struct.pack_into(">I", changed, 17, reference.crc32c(changed[21:]))
    return bytes(changed)


@quick
@given(batches, rules)
def test_agrees_with_the_reference(made, limits):
    data = encode(made)
    assert verdict(data, limits) == reference.validate(data, limits, NOW_MS)


GOOD = encode(THREE)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", (INVALID_RECORD, [])),
        (GOOD[:11], (INVALID_RECORD, [])),
        (GOOD + b"\0", (INVALID_RECORD, [])),
        (GOOD + GOOD, (INVALID_RECORD, [])),
        (patched(GOOD, 8, "i", -5), (CORRUPT_MESSAGE, [])),
        (patched(GOOD, 8, "i", 13), (CORRUPT_MESSAGE, [])),
        (patched(GOOD, 8, "i", len(GOOD)), (INVALID_RECORD, [])),
        (GOOD[:8] + struct.pack(">i", 40) + GOOD[12:52], (CORRUPT_MESSAGE, [])),
        (patched(GOOD, 16, "b", 1), (INVALID_RECORD, [])),
        (patched(GOOD, 16, "b", 3), (CORRUPT_MESSAGE, [])),
        (patched(GOOD, 0, "q", 1), (INVALID_RECORD, [])),
        (GOOD[:-1] + b"!", (CORRUPT_MESSAGE, [])),
        (patched(GOOD, 23, "i", 1), (INVALID_RECORD, [])),
        (patched(GOOD, 23, "i", -1), (INVALID_RECORD, [])),
        (patched(patched(GOOD, 23, "i", 0x7FFFFFFF), 57, "i", -0x80000000), (INVALID_RECORD, [])),
        (patched(patched(GOOD, 23, "i", 3), 57, "i", 4), (INVALID_RECORD, [])),
        (patched(patched(GOOD, 23, "i", 1), 57, "i", 2), (INVALID_RECORD, [])),
        (patched(GOOD, 21, "h", 0x20), (INVALID_RECORD, [])),
        (patched(GOOD, 21, "h", 0x10), (INVALID_RECORD, [])),
        (patched(GOOD, 43, "q", 5), (INVALID_RECORD, [])),
        (patched(GOOD, 21, "h", 5), (UNSUPPORTED_COMPRESSION_TYPE, [])),
        (patched(GOOD, 21, "h", 8), (INVALID_TIMESTAMP, [0, 1, 2])),
        (encode(replace(THREE, offset_deltas=(0, 2, 1))), (INVALID_RECORD, [1])),
        (encode(replace(THREE, offset_deltas=(1, 2, 3))), (INVALID_RECORD, [0])),
    ],
)  # fmt: skip
def test_each_defect(data, expected):
    assert verdict(data) == expected
    assert expected[0] in Errors.BY_CODE


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",  # length 0
        b"\x01" + bytes(20),  # length -1
        b"\x80\x80\x80\x80\x80\x00" + bytes(20),  # a varint of six bytes
        b"\x0e\x00\x00\x00\x02k\x00\x00" + b"\x00",  # a byte left over in the batch
        b"\x0e\x00\x00\x00\x04k\x00\x00",  # key length takes the value's length with it
        b"\x0e\x00\x00\x00\x03\x00\x00\x00",  # key length -2
        b"\x0e\x00\x00\x00\x01\x01\x01\x00",  # header count -1
        b"\x0e\x00\x00\x00\x01\x01\x02\x01",  # header key length -1
        b"\x0e\x00\x00\x00\x01\x01\x04\x00",  # more headers than bytes
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # a byte left over in the record
    ],
)
def test_malformed_records(payload):
    one = Batch(((None, None, NOW_MS, ()),))
    for padding in (b"", reference.encode_record((None, b"p" * 100, 0, ()), 0, 1)):
        made = replace(one, record_count=2, last_offset_delta=1) if padding else one
        data = seal(made, payload + padding)
        assert verdict(data) == reference.validate(data, Rules(), NOW_MS)
        assert verdict(data)[0] == INVALID_RECORD


def test_size_limit_comes_before_the_crc():
    limits = Rules(max_message_bytes=len(GOOD) - 1)
    assert verdict(GOOD, limits) == (MESSAGE_TOO_LARGE, [])
    assert verdict(GOOD[:-1] + b"!", limits) == (MESSAGE_TOO_LARGE, [])
    assert verdict(GOOD, Rules(max_message_bytes=len(GOOD))) == (0, [])


def test_timestamps_out_of_range_name_their_records():
    limits = Rules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1)
    assert verdict(GOOD, limits) == (INVALID_TIMESTAMP, [2])
    assert verdict(GOOD, limits, now_ms=NOW_MS - 2) == (INVALID_TIMESTAMP, [0, 1, 2])
    assert verdict(GOOD, limits, now_ms=NOW_MS + 1) == (0, [])
    assert verdict(GOOD, limits, now_ms=NOW_MS + 1001) == (INVALID_TIMESTAMP, [0])
    assert verdict(GOOD, replace(limits, log_append_time=True), now_ms=0) == (0, [])
    without = encode(Batch(((None, b"", -1, ()),)))
    assert verdict(without, limits) == (0, [])


def test_missing_keys_name_their_records_and_a_bad_timestamp_outranks_them():
    limits = Rules(key_required=True)
    keyless = ((b"k", b"", NOW_MS, ()), (None, b"", NOW_MS, ()))
    assert verdict(encode(Batch(keyless)), limits) == (INVALID_RECORD, [1])
    late = encode(Batch((*keyless, (b"k", b"", NOW_MS * 2, ()))))
    assert verdict(late, limits) == (INVALID_TIMESTAMP, [1, 2])
    # Kafka looks at the timestamps of records with keys only.
    assert verdict(encode(Batch(((None, b"", NOW_MS * 2, ()),))), limits) == (INVALID_RECORD, [0])
    assert verdict(encode(Batch(((b"", b"", NOW_MS, ()),))), limits) == (0, [])


@settings(max_examples=examples(25))
@given(batches)
def test_every_truncation_is_refused(made):
    data = encode(made)
    for size in range(0, len(data), 1 if len(data) < 400 else 37):
        assert verdict(data[:size])[0] != 0


@settings(max_examples=examples(25))
@given(batches, st.randoms(use_true_random=False))
def test_a_flipped_byte_is_refused_or_harmless(made, random):
    """Base offset and leader epoch lie outside the CRC; the broker writes both."""
    data = encode(made)
    before = decode_batches(data)
    for at in range(len(data)) if len(data) < 300 else random.sample(range(len(data)), 200):
        flipped = bytearray(data)
        flipped[at] ^= random.randint(1, 255)
        if verdict(flipped)[0] == 0:
            assert 12 <= at < 16
            assert decode_batches(flipped) == before


@quick
@given(batches, st.integers(1, 4), rules)
def test_compressed_batches_are_walked_after_decompression(made, codec, limits):
    from bowstring._native.record.compression import compress

    plain = encode(made)
    packed = seal(
        replace(made, attributes=made.attributes | codec), compress(codec, reference.encode_records(made))
    )
    walk = {name: value for name, value in asdict(limits).items() if name != "max_message_bytes"}
    error, reason, bad_records = validate_compressed(packed, now_ms=NOW_MS, **walk)
    expected = reference.validate_records(
        plain[61:], len(made.records), made.records[0][2], limits, NOW_MS
    )  # fmt: skip
    assert (error, bad_records) == expected
    assert (reason is None) == (error == 0)


def test_compressed_records_are_not_looked_at_until_then():
    packed = replace(THREE, attributes=4)
    for header in (packed, replace(packed, max_timestamp=NOW_MS * 2), replace(packed, attributes=4 | 8)):
        assert verdict(seal(header, b"not looked at"), Rules(key_required=True)) == (0, [])


def test_compressed_rubbish_and_bombs():
    from bowstring._native.record.compression import compress

    packed = replace(THREE, attributes=4)
    assert validate_compressed(seal(packed, b"rubbish"), now_ms=NOW_MS)[0] == INVALID_RECORD
    assert validate_compressed(b"short", now_ms=NOW_MS)[0] == CORRUPT_MESSAGE
    bomb = seal(packed, compress(4, bytes(10_000_000)))
    error, reason, bad_records = validate_compressed(bomb, now_ms=NOW_MS, limit=1_000_000)
    assert (error, bad_records) == (MESSAGE_TOO_LARGE, [])
    assert "more than 1000000 bytes" in reason
