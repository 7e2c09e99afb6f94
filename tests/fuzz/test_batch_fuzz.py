"""Seeded fuzzing of the batch validator and decoders against the slow reference.

By hand: `python -m tests.fuzz.test_batch_fuzz --seconds 60 [--seed N]`. A failure prints the seed and the
iteration that found it; the same seed repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import struct
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bowstring._native.record import batch
from bowstring._native.record.compression import CompressionError, compress
from bowstring._native.record.decode import batch_headers, decode_batches, decode_columns
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from bowstring._native.server.recompress import recompress, validate_compressed
from tests.support import reference_batch as reference
from tests.support.mutations import HEADER_BYTES, NOW_MS, encode_wrapping, mend, mutate_once, some_batch
from tests.support.reference_batch import Rules

LOG_APPEND_TIME = 0x08  # in the attributes
LEAST = 100


def some_rules(rng: random.Random) -> Rules:
    return Rules(
        max_message_bytes=rng.choice((200, 1048588)),
        key_required=rng.random() < 0.3,
        log_append_time=rng.random() < 0.3,
        timestamp_before_max_ms=rng.choice((0, 10**9, (1 << 63) - 1)),
        timestamp_after_max_ms=rng.choice((0, 3600000, (1 << 63) - 1)),
    )


def codec_of(data: bytes) -> int:
    return struct.unpack_from(">h", data, 21)[0] & 7 if len(data) >= HEADER_BYTES else 0


def check_plain(data: bytes, rules: Rules) -> bool:
    """Native and slow verdicts agree; accepted batches decode alike; no other error comes. True: accepted."""
    error, reason, bad_records = batch.validate(data, now_ms=NOW_MS, **asdict(rules))
    assert (reason is None) == (error == 0)
    if not 0 < codec_of(data) <= 4:
        assert (error, bad_records) == reference.validate(data, rules, NOW_MS)
        if error == 0:
            _, expected = reference.decode(data)
            decoded = decode_batches(data)
            assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in decoded] == [
                (r.offset_delta, r.timestamp, r.key, r.value, r.headers) for r in expected
            ]
            assert decode_columns(data).timestamps.tolist() == [r.timestamp for r in expected]
    for verify_crc in (True, False):
        outcomes: list[Any] = []
        for decode in (decode_batches, decode_columns):
            try:
                found: Any = decode(data, verify_crc=verify_crc)
                outcomes.append(len(getattr(found, "batches", found)))
            except (CorruptBatch, CompressionError) as refused:
                outcomes.append(type(refused))
        assert isinstance(outcomes[0], int) == isinstance(outcomes[1], int), outcomes
    with contextlib.suppress(CorruptBatch):
        batch_headers(data)
    return error == 0


def check_compressed(rng: random.Random, data: bytearray) -> None:
    """Damaged compressed data, or damaged records behind sound compression, give a verdict, never more."""
    codec = rng.randint(1, 4)
    payload = bytes(data[HEADER_BYTES:])
    packed = bytearray(compress(codec, payload))
    if rng.random() < 0.5:
        mutate_once(rng, packed)
    header = bytearray(data[:HEADER_BYTES])
    header[22] = header[22] & ~7 | codec
    whole = header + packed
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">I", whole, 17, reference.crc32c(bytes(whole[21:])))
    error, _, bad_records = validate_compressed(bytes(whole), now_ms=NOW_MS, limit=1 << 20)
    count, base_timestamp = struct.unpack_from(">i", whole, 57)[0], struct.unpack_from(">q", whole, 27)[0]
    if packed == compress(codec, payload) and whole[16] == 2:
        stamped = bool(whole[22] & LOG_APPEND_TIME)
        expected = reference.validate_records(
            payload, count, base_timestamp, Rules(), NOW_MS, stamped=stamped
        )
        assert (error, bad_records) == expected
    with contextlib.suppress(CorruptBatch, CompressionError):
        again = recompress(bytes(whole), rng.randrange(5), limit=1 << 20)
        assert decode_columns(again).rows == max(count, 0)


def fuzz(seed: int, seconds: float) -> tuple[int, int]:
    """Runs for `seconds`, and for LEAST inputs; how many inputs there were, and how many of them were good batches."""
    deadline = time.monotonic() + seconds
    done = accepted = 0
    while time.monotonic() < deadline or done < LEAST:
        rng = random.Random(f"{seed}/{done}")
        try:
            data = bytearray(encode_wrapping(some_batch(rng)))
            for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
                mutate_once(rng, data)
            mend(rng, data)
            accepted += check_plain(bytes(data), some_rules(rng))
            if len(data) > HEADER_BYTES and done % 4 == 0:
                check_compressed(rng, data)
        except BaseException:
            print(f"failed with seed {seed} at iteration {done}")
            raise
        done += 1
    return done, accepted


def test_the_validator_and_the_reference_agree():
    seed = int(os.environ.get("BOWSTRING_FUZZ_SEED", random.SystemRandom().randrange(1 << 32)))
    seconds = float(os.environ.get("BOWSTRING_FUZZ_SECONDS", "5"))
    print(f"seed {seed}")
    done, accepted = fuzz(seed, seconds)
    assert 0 < accepted < done


def test_random_bytes_are_no_batch():
    rng = random.Random(4)
    for _ in range(3000):
        data = rng.randbytes(rng.randrange(200))
        assert batch.validate(data, now_ms=NOW_MS)[0] != 0
        with contextlib.suppress(CorruptBatch):
            assert decode_batches(data) == []


def test_refusing_leaks_nothing():
    """The same bad input many times over: memory stays where it is."""
    bad = bytearray(encode_batch([(b"k", b"v" * 100, NOW_MS, ())], 4))
    bad[-1] ^= 1
    struct.pack_into(">I", bad, 17, reference.crc32c(bytes(bad[21:])))

    def round_of(times: int) -> None:
        for _ in range(times):
            validate_compressed(bad, now_ms=NOW_MS)
            batch.validate(bad, now_ms=NOW_MS)
            with contextlib.suppress(CorruptBatch, CompressionError):
                decode_columns(bad)

    def resident_kib() -> int:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    # AddressSanitizer keeps freed memory back for a while, to catch its use.
    growth_kib_max = 64 * 1024 if "libasan" in Path("/proc/self/maps").read_text() else 2048

    round_of(500)
    before = resident_kib()
    round_of(5000)
    assert resident_kib() - before < growth_kib_max


def main() -> None:
    """Command line: prints the seed first, so that a crash can be repeated too."""
    parser = argparse.ArgumentParser(description="Fuzz the batch validator and decoders.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    done, accepted = fuzz(options.seed, options.seconds)
    print(f"{done} inputs, {accepted} of them good batches, no disagreement")


if __name__ == "__main__":
    main()
