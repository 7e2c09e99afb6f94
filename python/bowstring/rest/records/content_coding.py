"""Compresses the body of an answer piece by piece."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

ZSTD_LEVEL = 1
GZIP_LEVEL = 1
_GZIP_BITS = 31


class Coding(Protocol):
    """A compressor of one body."""

    def piece(self, data: bytes) -> bytes:
        """Returns what may be sent so far; the receiver can read all of `data` from it."""

    def end(self) -> bytes:
        """Returns the rest."""


class Identity:
    """Does not compress."""

    def piece(self, data: bytes) -> bytes:
        """Returns `data`."""
        return data

    def end(self) -> bytes:
        """Returns nothing."""
        return b""


class Zstd:
    """Compresses by zstd (RFC 8878)."""

    def __init__(self) -> None:
        import cramjam

        self._compressor: Any = cramjam.zstd.Compressor(ZSTD_LEVEL)

    def piece(self, data: bytes) -> bytes:
        """Returns a part of the frame."""
        self._compressor.compress(data)
        return bytes(self._compressor.flush())

    def end(self) -> bytes:
        """Returns the end of the frame."""
        return bytes(self._compressor.finish())


class Gzip:
    """Compresses by gzip (RFC 1952)."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)

    def piece(self, data: bytes) -> bytes:
        """Returns a part of the stream."""
        return self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        """Returns the end of the stream."""
        return self._compressor.flush(zlib.Z_FINISH)


CODINGS: dict[str, type[Coding]] = {"zstd": Zstd, "gzip": Gzip}


def coding_of(accept_encoding: str) -> tuple[str, Coding]:
    """Returns the name and a compressor: of zstd, gzip, or neither, the best that a client accepts.

    Args:
        accept_encoding: the header (RFC 9110).
    """
    accepted = {}
    for each in accept_encoding.split(","):
        name, _, weight = each.partition(";")
        accepted[name.strip().casefold()] = weight.strip().removeprefix("q=") not in (
            "0",
            "0.0",
            "0.00",
            "0.000",
        )
    for name, kind in CODINGS.items():
        if accepted.get(name, False):
            return name, kind()
    return "", Identity()
