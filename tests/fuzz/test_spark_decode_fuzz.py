"""Seeded fuzzing of the Spark source's decoder against the decoder that makes Python objects.

By hand: BOWSTRING_FUZZ_CASES=100000 pytest -s tests/fuzz/test_spark_decode_fuzz.py. A failure prints the seed and case.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pyspark

from bowstring._native.record.compression import CompressionError, compress
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from tests.support.arrow_reference import expected
from tests.support.mutations import HEADER_BYTES, encode_wrapping, mend, mutate_once, some_batch
from tests.support.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("java") / "DecodeProbe.java"
SLACK = 0x40
OFFSET, TIMESTAMP, TIMESTAMP_TYPE, KEY, VALUE, HEADERS = (1 << i for i in range(6))
ALL = OFFSET | TIMESTAMP | TIMESTAMP_TYPE | KEY | VALUE | HEADERS
OPTIONS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.misc")
]


def some_input(rng: random.Random) -> bytes:
    data = bytearray(encode_wrapping(some_batch(rng)))
    if rng.random() < 0.3:
        codec = rng.randint(1, 4)
        data[HEADER_BYTES:] = compress(codec, bytes(data[HEADER_BYTES:]))
        data[22] |= codec
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        mutate_once(rng, data)
    mend(rng, data)
    if len(data) >= HEADER_BYTES:
        struct.pack_into(">q", data, 0, rng.choice((0, 7, 1 << 40)))
    return bytes(data)


class Answers:
    """Reads what the probe wrote."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def binary(self) -> bytes | None:
        length = self.number(">i")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at]

    def field(self, bit: int) -> Any:
        if bit in (OFFSET, TIMESTAMP):
            return self.number(">q")
        if bit == TIMESTAMP_TYPE:
            return self.number(">i")
        if bit == HEADERS:
            return tuple((self.binary(), self.binary()) for _ in range(self.number(">i")))
        return self.binary()

    def rows(self, bits: int) -> list[tuple[Any, ...]] | None:
        count = self.number(">i")
        if count < 0:
            return None
        wanted = [1 << i for i in range(6) if bits >> i & 1]
        return [tuple(self.field(bit) for bit in wanted) for _ in range(count)]


def probe(cases: list[tuple[int, int, int, bytes]], *given: str) -> tuple[Answers, list[str]]:
    """Runs all cases in one JVM; returns its answers and what it wrote to standard error."""
    jars = Path(pyspark.__file__).parent / "jars"
    path = f"{ROOT / 'python/bowstring/spark/jars/bowstring-spark.jar'}:{jars}/*"
    stdin = b"".join(struct.pack(">Bqqi", *case[:3], len(case[3])) + case[3] for case in cases)
    run = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", *OPTIONS, "-cp", path, str(PROBE), *given],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=HANG_S,
    )
    assert run.returncode == 0, run.stderr.decode()[-4000:]
    return Answers(run.stdout), run.stderr.decode().splitlines()


def wanted(data: bytes, start: int, end: int, bits: int) -> list[tuple[Any, ...]] | None:
    """The rows of a good batch; None for one that may be refused."""
    try:
        decoded = expected(data, -(1 << 63), 1 << 63)
    except (CorruptBatch, CompressionError):
        return None
    first = struct.unpack_from(">q", data)[0] if decoded else 0
    last = first + struct.unpack_from(">i", data, 23)[0] if decoded else 0
    offsets = [row[2] for row in decoded]
    in_microseconds = all(abs(row[3]) <= ((1 << 63) - 1) // 1000 for row in decoded)
    if (
        sorted(set(offsets)) != offsets
        or (offsets and not first <= offsets[0] <= offsets[-1] <= last)
        or not in_microseconds
    ):
        return None
    rows = []
    for _, _, offset, timestamp, kind, key, value, headers in decoded:
        pairs = tuple((name.encode(), payload) for name, payload in headers)
        row = (offset, timestamp * 1000, kind, key, value, pairs)
        if start <= offset < end:
            rows.append(tuple(field for i, field in enumerate(row) if bits >> i & 1))
    return rows


def test_the_decoders_agree() -> None:
    seed = int(os.environ.get("BOWSTRING_FUZZ_SEED", random.SystemRandom().randrange(1 << 32)))
    cases = []
    for i in range(int(os.environ.get("BOWSTRING_FUZZ_CASES", "4000"))):
        rng = random.Random(f"{seed}/{i}")
        bits = rng.choice((ALL, ALL, rng.randrange(64))) | rng.choice((0, SLACK))
        start, end = rng.choice(((0, 1 << 62), (3, 9), (1 << 40, (1 << 40) + 2)))
        cases.append((bits, start, end, some_input(rng)))
    answers, _ = probe(cases)
    agreed = refused = 0
    for i, (bits, start, end, data) in enumerate(cases):
        found = answers.rows(bits)
        rows = wanted(data, start, end, bits)
        if rows is None:
            refused += found is None
        elif not readable(data):
            assert found is None or len(found) == len(rows)
        elif found is not None or (bits & ALL) == ALL:
            assert found == rows, f"seed {seed}, case {i}: {cases[i]}"
            agreed += 1
    assert answers.at == len(answers.data)
    assert agreed > len(cases) / 10 and refused > len(cases) / 10, (agreed, refused)


def readable(data: bytes) -> bool:
    """Whether all header keys are UTF-8: the reference escapes other bytes, Spark's strings keep them."""
    return not any("\\x" in name for row in expected(data) for name, _ in row[7])


def test_random_bytes_behind_a_good_header() -> None:
    rng = random.Random(6)
    base = encode_wrapping(some_batch(rng))[:HEADER_BYTES]
    cases = []
    for _ in range(3000):
        data = bytearray(base + rng.randbytes(rng.randrange(120)))
        struct.pack_into(">i", data, 57, rng.choice((0, 1, 3, 1 << 20, -1)))
        data[22] = rng.choice((0, 0, 1, 2, 3, 4, 5))
        mend(rng, data)
        cases.append((rng.choice((ALL, VALUE, OFFSET, 0)) | rng.choice((0, SLACK)), 0, 1 << 62, bytes(data)))
    answers, _ = probe(cases)
    for case in cases:
        answers.rows(case[0])
    assert answers.at == len(answers.data)


def test_a_batch_that_becomes_too_large() -> None:
    """In each codec: 60 MB of zeros in some kilobytes, a batch just beyond the bound, and one that keeps it."""
    codecs = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
    sizes = (60_000_000, 500_000, 499_000)
    cases = []
    for codec in codecs:
        for size in sizes:
            batch = bytearray(encode_batch([(None, bytes(size), 1_790_000_000_000, ())], codec))
            struct.pack_into(">q", batch, 0, 7)
            cases.append((VALUE | SLACK, 0, 1 << 62, bytes(batch)))
    answers, told = probe(cases, "500000")
    found = [answers.rows(case[0]) for case in cases]
    assert found == [None, None, [(bytes(sizes[-1]),)]] * len(codecs)
    assert told == [
        f"The {name} record batch at offset 7 decompresses to more than 500000 bytes: raise "
        "kafka.max.decompressed.batch.bytes to read it, or write smaller batches"
        for name in codecs.values()
        for _ in sizes[:-1]
    ]
