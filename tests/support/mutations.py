"""Creates seeded batches, damages them, and repairs their length and CRC."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

from tests.support import reference_batch as reference
from tests.support.reference_batch import Batch

NOW_MS = 1_700_000_000_000
HEADER_BYTES = reference.HEADER_BYTES
# Values that often break varint and length code.
EDGES = (-(1 << 63), -(1 << 31), -2, -1, 0, 1, 63, 64, 8191, 8192, (1 << 31) - 1, 1 << 31, (1 << 63) - 1)


def some_bytes(rng: random.Random, most: int) -> bytes | None:
    return None if rng.random() < 0.15 else rng.randbytes(rng.randrange(most))


def some_batch(rng: random.Random) -> Batch:
    def record(i: int):
        headers = tuple((f"h{j}", some_bytes(rng, 20)) for j in range(rng.choice((0, 0, 0, 1, 3))))
        timestamp = rng.choice((NOW_MS + i, NOW_MS - rng.randrange(10**10), -1, rng.choice(EDGES)))
        return some_bytes(rng, 40), some_bytes(rng, rng.choice((10, 100, 300))), timestamp, headers

    made = Batch(tuple(record(i) for i in range(rng.randint(1, 12))), leader_epoch=rng.randrange(-1, 100))
    if rng.random() < 0.2:
        made = replace(made, producer_id=rng.randrange(-1, 9), base_sequence=rng.randrange(-1, 9))
    if rng.random() < 0.1:
        changed: dict[str, Any] = {rng.choice(("base_timestamp", "max_timestamp")): rng.choice(EDGES)}
        made = replace(made, **changed)
    return made


def encode_wrapping(made: Batch) -> bytes:
    """Encodes with the reference; deltas beyond int64 wrap, as in every implementation."""
    base = made.records[0][2] if made.base_timestamp is None else made.base_timestamp
    wrap = ((1 << 63) - 1, 1 << 64)
    payload = b"".join(
        reference.encode_record(record, (record[2] - base + wrap[0] + 1) % wrap[1] - wrap[0] - 1, i)
        for i, record in enumerate(made.records)
    )
    return reference.seal(made, payload)


def mutate_once(rng: random.Random, data: bytearray) -> None:
    """Applies flips, edge values and splices, mostly to the records, sometimes to the header."""
    start = 0 if rng.random() < 0.2 else min(HEADER_BYTES, len(data) - 1)
    at = rng.randrange(start, len(data))
    kind = rng.randrange(6)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    elif kind == 2:
        data[at : at + rng.randrange(3)] = reference.to_varint(rng.choice(EDGES))
    elif kind == 3:
        del data[at : at + rng.randrange(1, 20)]
    elif kind == 4:
        data[at:at] = rng.randbytes(rng.randrange(1, 12))
    else:
        begin = rng.randrange(start, len(data))
        data[at:at] = data[begin : begin + rng.randrange(40)]


def mend(rng: random.Random, data: bytearray) -> None:
    """Usually repairs length and CRC, so that the code after those checks is reached."""
    if len(data) < HEADER_BYTES:
        return
    if rng.random() < 0.95:
        struct.pack_into(">i", data, 8, len(data) - 12)
    if rng.random() < 0.95:
        struct.pack_into(">I", data, 17, reference.crc32c(bytes(data[21:])))
