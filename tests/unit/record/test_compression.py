import contextlib
import gzip
import random
import subprocess
import sys
from pathlib import Path

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.record import compression
from bowstring._native.record.compression import (
    CODECS,
    CompressionError,
    DecompressedTooLarge,
    compress,
    decompress,
)
from tests.support.examples import examples

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
SAMPLES = {
    "empty": b"",
    "one": b"x",
    "repetitive": b"hello" * 20000,
    "random": random.Random(1).randbytes(100_000),
    "long": bytes(3_000_000),
}
codecs = pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
samples = pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)


@codecs
@samples
def test_round_trip_within_the_exact_limit(codec, data):
    packed = compress(codec, data)
    assert type(packed) is bytes
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(packed)) == data
    if data:
        with pytest.raises(DecompressedTooLarge, match=f"{CODECS[codec]} .*more than {len(data) - 1} bytes"):
            decompress(codec, packed, len(data) - 1)


@codecs
@samples
def test_cut_or_followed_by_rubbish_is_refused(codec, data):
    packed = compress(codec, data)
    for damaged in (packed[: len(packed) // 2], packed[:-1], packed + b"rubbish!", b"rubbish!", b""):
        if codec == SNAPPY and damaged in (b"rubbish!", packed[: len(compression.XERIAL_HEADER)]):
            continue  # an empty xerial stream is whole; text may begin like a raw block
        for limit in (len(data), compression.DECOMPRESSED_MAX_BYTES):
            with pytest.raises(CompressionError):
                decompress(codec, damaged, limit)


@settings(max_examples=examples(60))
@given(st.integers(1, 4), st.binary(max_size=2000), st.randoms(use_true_random=False))
def test_damage_gives_bytes_or_a_named_error(codec, data, rng):
    packed = bytearray(compress(codec, data))
    for _ in range(rng.randint(1, 3)):
        packed[rng.randrange(len(packed))] ^= rng.randint(1, 255)
    with contextlib.suppress(CompressionError):
        assert len(decompress(codec, bytes(packed), 100_000)) <= 100_000


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 1), (GZIP, 9), (LZ4, 1), (LZ4, 12), (ZSTD, -5), (ZSTD, 19)]
)
def test_levels(codec, level):
    data = b"".join(b'{"flight":%d}' % (i * 7919 % 10000) for i in range(3000))
    assert decompress(codec, compress(codec, data, level)) == data


def test_streams_may_follow_one_another():
    for codec in (GZIP, SNAPPY, LZ4):
        assert decompress(codec, compress(codec, b"one") + compress(codec, b"two")) == b"onetwo"


def test_forms_that_other_clients_send():
    data = b"forms " * 1000
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    assert (
        decompress(LZ4, lz4.frame.compress(data, store_size=True, block_linked=True, content_checksum=True))
        == data
    )
    assert decompress(GZIP, gzip.compress(data)) == data
    streaming = cramjam.zstd.Compressor(level=1)
    streaming.compress(data)
    assert decompress(ZSTD, bytes(streaming.finish())) == data


def test_lz4_frames_suit_java():
    """Kafka's reader takes only frames of version 1 whose blocks are independent (KIP-57)."""
    flags = compress(LZ4, b"x" * 1000)[4]
    assert flags >> 6 == 1
    assert flags & 0x20


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"", None),
        (b"\x28\xb5\x2f\xfd", None),
        (bytes(12), None),
        (b"\x28\xb5\x2f\xfd\x20\x07", 7),  # single segment, one byte
        (b"\x28\xb5\x2f\xfd\x60\x00\x01", 512),  # two bytes, from 256 on
        (b"\x28\xb5\x2f\xfd\xa0\x04\x03\x02\x01", 0x01020304),
        (b"\x28\xb5\x2f\xfd\xe1\xff" + b"\x01" + bytes(7), 1),  # a dictionary id of one byte in front
        (b"\x28\xb5\x2f\xfd\x00\x58", None),  # window descriptor, no content size
        (b"\x28\xb5\x2f\xfd\xa0\x04", None),
    ],
)
def test_zstd_content_size(header, expected):
    assert compression.zstd_content_size(header) == expected


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x40"])
def test_a_snappy_length_that_cannot_be_true_asks_for_no_memory(length):
    with pytest.raises(CompressionError):
        decompress(SNAPPY, length + b"tiny")


def test_xerial_blocks_beyond_the_end_are_refused():
    for tail in (b"\0\0", b"\0\0\0\x05abc", b"\0\0\0\0"):
        with pytest.raises(CompressionError, match="snappy records are"):
            decompress(SNAPPY, compression.XERIAL_HEADER + tail)


PEAK = """
import sys
from bowstring._native.record.compression import compress, decompress_in_place, decompressing_bytes
codec, size, limit = map(int, sys.argv[1:])
packed = sys.stdin.buffer.read()
decompress_in_place(codec, compress(codec, bytes(1000)), 1000)  # imports what it needs
def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))
before = status("VmHWM")
whole = decompress_in_place(codec, packed, limit)
assert len(whole) == size and not any(whole[:: size // 10])
print(status("VmHWM") - before - decompressing_bytes(size))
del whole
print(status("VmRSS") - before)
"""


@codecs
def test_memory_while_decompressing(codec):
    """No more than was said, however large the limit, and given back."""
    command = [sys.executable, "-c", PEAK, str(codec), str(96 << 20), str(128 << 20)]
    ran = subprocess.run(command, input=compress(codec, bytes(96 << 20)), capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    # AddressSanitizer keeps freed memory back for a while.
    slack = 64 << 20 if "libasan" in Path("/proc/self/maps").read_text() else 8 << 20
    above, kept = map(int, ran.stdout.split())
    assert above < slack
    assert kept < slack


def test_unknown_codecs_are_named():
    for codec in (-1, 5):
        with pytest.raises(
            CompressionError, match=f"unknown compression codec {codec}; the codecs are 0 to 4"
        ):
            compress(codec, b"")
    with pytest.raises(
        ValueError, match="unknown compression codec 'lzo'; use one of none, gzip, snappy, lz4, zstd"
    ):
        compression.codec_number("lzo")
    assert [compression.codec_number(name) for name in CODECS] == list(range(5))


def test_no_codec_is_imported_before_it_is_used():
    code = (
        "import sys, bowstring._native.server.recompress, bowstring._native.record.encode, bowstring._native.record.decode\n"
        "print(sorted({'lz4', 'cramjam', 'zlib'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[]", ran.stderr
