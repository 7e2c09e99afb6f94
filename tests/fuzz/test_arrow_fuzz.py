"""Seeded fuzzing of the decoder into Arrow's buffers against the decoder that makes Python objects.

By hand: BOWSTRING_FUZZ_SECONDS=60 pytest -s tests/fuzz/test_arrow_fuzz.py. A failure prints the seed and the iteration.
"""

import os
import random
import struct
import time

from bowstring._native.arrow.decode import ArrowRows
from bowstring._native.record.compression import CompressionError, compress
from bowstring._native.record.decode import batch_headers
from bowstring._native.record.types import CorruptBatch
from tests.support import reference_batch as reference
from tests.support.arrow_reference import ALL, expected, taken
from tests.support.mutations import HEADER_BYTES, encode_wrapping, mend, mutate_once, some_batch

LEAST = 200


def ascending(data):
    """Whether offsets rise within the batch and stay inside it: Python's decoder does not check that."""
    headers = batch_headers(data)
    if len(headers) != 1:
        return not headers  # cut short: nothing is there; two batches: their offsets need not rise
    header = headers[0]
    offsets = [row[2] for row in expected(data, -(1 << 63), 1 << 63)]
    return sorted(set(offsets)) == offsets and all(
        header.base_offset <= offset <= header.last_offset for offset in offsets
    )


def some_input(rng):
    data = bytearray(encode_wrapping(some_batch(rng)))
    if rng.random() < 0.3:
        codec = rng.randint(1, 4)
        data[HEADER_BYTES:] = compress(codec, bytes(data[HEADER_BYTES:]))
        data[22] |= codec
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        mutate_once(rng, data)
    mend(rng, data)
    if len(data) >= HEADER_BYTES:
        struct.pack_into(">q", data, 0, rng.choice((0, 7, 1 << 40)))
    return bytes(data)


def in_one_go(data, start, in_views):
    rows = ArrowRows(ALL, views=in_views)
    rows.append(data, start, verify_crc=True, limit=1 << 20)
    return taken(rows, in_views)


def in_pieces(rng, data, start, in_views):
    found, at, resumed = [], 0, None
    while at < len(data):
        rows = ArrowRows(
            ALL, views=in_views, rows_max=rng.randint(1, 4), bytes_max=rng.choice((1, 60, 1 << 20))
        )
        done, start, resumed = rows.append(data[at:], start, verify_crc=True, resumed=resumed, limit=1 << 20)
        if not rows.full and not done and not rows.rows:
            break
        at += done
        found += taken(rows, in_views)
    return found


def check(rng, data):
    """True if the decoders agree that the batch is valid."""
    in_views = rng.random() < 0.5
    try:
        wanted = expected(data)
        good = ascending(data)
    except (CorruptBatch, CompressionError):
        wanted, good = None, False
    try:
        found = in_one_go(data, 0, in_views)
    except (CorruptBatch, CompressionError):
        assert not good
        return False
    if not good:  # a header without records for this reader: the records are not decoded
        assert found == []
        return False
    assert found == wanted
    assert in_pieces(rng, data, 0, in_views) == wanted
    if wanted:
        start = rng.choice(wanted)[2]
        assert in_one_go(data, start, in_views) == [row for row in wanted if row[2] >= start]
    return bool(wanted)


def test_the_decoders_agree():
    seed = int(os.environ.get("BOWSTRING_FUZZ_SEED", random.SystemRandom().randrange(1 << 32)))
    deadline = time.monotonic() + float(os.environ.get("BOWSTRING_FUZZ_SECONDS", "4"))
    done = agreed = 0
    while time.monotonic() < deadline or done < LEAST:
        rng = random.Random(f"{seed}/{done}")
        try:
            agreed += check(rng, some_input(rng))
        except BaseException:
            print(f"failed with seed {seed} at iteration {done}")
            raise
        done += 1
    assert 0 < agreed < done, f"{agreed} of {done}"
    assert reference.HEADER_BYTES == HEADER_BYTES


def test_random_bytes_behind_a_good_header_never_read_out_of_bounds():
    rng = random.Random(6)
    base = encode_wrapping(some_batch(rng))[:HEADER_BYTES]
    for _ in range(3000):
        data = bytearray(base + rng.randbytes(rng.randrange(120)))
        struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">i", data, 57, rng.choice((0, 1, 3, 1 << 20, -1)))
        rows = ArrowRows(ALL, views=rng.random() < 0.5)
        try:
            rows.append(data, 0)
        except (CorruptBatch, CompressionError):
            assert rows.rows == 0
