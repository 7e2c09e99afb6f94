"""The structure of compressed data, checked without decompressing it."""

import gzip
import os

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.record.compressed_frame import looks_compressed
from bowstring._native.record.compression import compress

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 10, 1000, 70_000, 1_000_000])
@pytest.mark.parametrize("kind", ["zeros", "text", "random"])
def test_whole_output_passes(codec, size, kind):
    data = {
        "zeros": bytes(size),
        "text": b"all that is gold " * (size // 17 + 1),
        "random": os.urandom(size),
    }[kind]
    assert looks_compressed(codec, compress(codec, data[:size]))


@pytest.mark.parametrize("codec", CODECS)
def test_other_bytes_do_not(codec):
    assert not looks_compressed(codec, b"this is not compressed at all")
    assert not looks_compressed(codec, b"")
    for other in CODECS:
        if other != codec:
            assert not looks_compressed(codec, compress(other, b"all that is gold does not glitter" * 50))


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD])
def test_no_truncation_passes(codec):
    whole = compress(codec, os.urandom(300) + bytes(500))
    assert not [cut for cut in range(len(whole)) if looks_compressed(codec, whole[:cut])]
    assert not looks_compressed(codec, whole + b"\0")


@given(st.binary(min_size=1, max_size=5000), st.booleans(), st.booleans(), st.booleans())
def test_variants_of_the_formats(data, linked, checksum, store_size):
    assert looks_compressed(
        LZ4,
        lz4.frame.compress(
            data,
            block_linked=linked,
            content_checksum=checksum,
            block_checksum=checksum,
            store_size=store_size,
        ),
    )
    assert looks_compressed(ZSTD, bytes(cramjam.zstd.compress(data)) * 2)
    assert looks_compressed(SNAPPY, bytes(cramjam.snappy.compress_raw(data)))
    assert looks_compressed(GZIP, gzip.compress(data))


@given(st.binary(max_size=400), st.sampled_from(CODECS))
def test_nothing_is_read_past_the_end(data, codec):
    looks_compressed(codec, data)
