"""Batches that are encoded already, on their way to the sender."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from bowstring._native.record import compression
from bowstring.clients.errors import ConfigError

# Room a record takes besides key and value, near enough for deciding when a buffer is full.
RECORD_OVERHEAD_BYTES = 24
_RECORD_COUNT_OFFSET = 57


def codec_number(name: str) -> int:
    """Kafka's number of a compression codec.

    Raises:
        ConfigError: there is none of this name.
    """
    try:
        return compression.codec_number(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def with_counts(encoded: Iterable[bytes]) -> list[tuple[bytes, int]]:
    """Encoded batches with the record counts of their headers."""
    return [(batch, struct.unpack_from(">i", batch, _RECORD_COUNT_OFFSET)[0]) for batch in encoded]
