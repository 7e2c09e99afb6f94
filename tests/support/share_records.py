"""Record batches at given offsets, and acknowledgements, for tests of share partitions."""

import struct
from typing import NamedTuple

ABORT = 0
COMMIT = 1
TRANSACTIONAL = 0x10
CONTROL = 0x20


class Acknowledged(NamedTuple):
    """An acknowledgement batch of a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def record_batch(first: int, last: int, *, producer_id: int = -1, transactional: bool = False) -> bytes:
    """Returns a batch with these offsets. Its records are left out: only the header counts."""
    body = b"r" * 10
    attributes = TRANSACTIONAL if transactional else 0
    return _sealed(first, last - first, attributes, producer_id, body)


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """Returns the control batch that ends a transaction."""
    key = struct.pack(">hh", 0, kind)
    record = b"\x00\x00\x00" + bytes([len(key) * 2]) + key + b"\x01\x00"
    return _sealed(offset, 0, TRANSACTIONAL | CONTROL, producer_id, bytes([len(record) * 2]) + record)


def _sealed(first: int, delta: int, attributes: int, producer_id: int, body: bytes) -> bytes:
    rest = struct.pack(">ibI", 0, 2, 0) + struct.pack(
        ">hiqqqhii", attributes, delta, 0, 0, producer_id, 0, 0, delta + 1
    )
    return struct.pack(">qi", first, len(rest) + len(body)) + rest + body
