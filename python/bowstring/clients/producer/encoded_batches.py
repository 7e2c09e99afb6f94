"""Batches that are encoded already, on their way to the sender."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from bowstring._native.record import compression
from bowstring.clients.errors import ConfigError

# Room a record takes besides key and value, accurate enough to decide when a buffer is full.
RECORD_OVERHEAD_BYTES = 24
_RECORD_COUNT_OFFSET = 57
_LENGTH_OFFSET, _MAGIC_OFFSET = 8, 16
_HEADER_BYTES = 61
_MAGIC = 2


def codec_number(name: str) -> int:
    """Kafka's number of a compression codec.

    Raises:
        ConfigError: there is none of this name.
    """
    try:
        return compression.codec_number(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def check(batch: bytes) -> None:
    """Refuses bytes that are no complete record batch by size and magic; brokers check the rest.

    Raises:
        ConfigError: the message says what is wrong.
    """
    size = len(batch)
    if size < _HEADER_BYTES or batch[_MAGIC_OFFSET] != _MAGIC:
        raise ConfigError(f"encoded has {size} bytes that are no record batch of magic {_MAGIC}")
    (rest,) = struct.unpack_from(">i", batch, _LENGTH_OFFSET)
    whole = rest + _LENGTH_OFFSET + 4
    if whole != size:
        raise ConfigError(
            f"encoded has {size} bytes, but its record batch says {whole}: give one whole batch in each pair"
        )


def with_counts(encoded: Iterable[bytes]) -> list[tuple[bytes, int]]:
    """Encoded batches with the record counts of their headers."""
    return [(batch, struct.unpack_from(">i", batch, _RECORD_COUNT_OFFSET)[0]) for batch in encoded]
