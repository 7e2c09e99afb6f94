"""Builds instances from the declarations: filled at random for tests, and as seeds for fuzzing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from bowstring.protocol.frames import encode_request
from bowstring.protocol.schema import (
    ARRAY,
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    STRUCT,
    UINT16,
    UINT32,
    UUID,
    Field,
    Struct,
    fields_of,
)
from bowstring.protocol.versions import API_VERSIONS

S = TypeVar("S", bound=Struct)


class Chance(Protocol):
    """The part of random.Random that is needed here. The caller provides the randomness."""

    def randrange(self, start: int, stop: int) -> int:
        """Returns an integer from `start` to below `stop`."""


_BITS = {INT8: 8, INT16: 16, UINT16: 16, INT32: 32, UINT32: 32, INT64: 64}
_SIGNED = {INT8, INT16, INT32, INT64}
_BLOBS = (b"", b"\x00", b"bytes", bytes(range(256)))
_SAMPLES: dict[int, tuple[object, ...]] = {
    STRING: ("", "a", "orders", "täglich", "日本-1", "🚀", "x" * 130),
    BYTES: _BLOBS,
    RECORDS: _BLOBS,
}


def example(declared: type[S], version: int, chance: Chance) -> S:
    """Returns an instance with all fields of `version` filled by `chance`; other fields keep their
    defaults.
    """
    values = {
        field.name: _value(field, version, chance)
        for field in fields_of(declared)
        if field.versions[0] <= version <= field.versions[1]
    }
    return declared(**values)


def _value(field: Field, version: int, chance: Chance) -> object:
    if field.nullable[0] <= version <= field.nullable[1] and chance.randrange(0, 4) == 0:
        return None
    if field.kind == ARRAY:
        return [_plain(field, field.element, version, chance) for _ in range(chance.randrange(0, 3))]
    return _plain(field, field.kind, version, chance)


def _plain(field: Field, kind: int, version: int, chance: Chance) -> object:
    if kind == STRUCT:
        assert field.struct is not None
        return example(field.struct, version, chance)
    if kind in _BITS:
        return _number(_BITS[kind], kind in _SIGNED, chance)
    if kind in _SAMPLES:
        samples = _SAMPLES[kind]
        return samples[chance.randrange(0, len(samples))]
    if kind == BOOL:
        return chance.randrange(0, 2) == 1
    if kind == UUID:
        return chance.randrange(0, 1 << 128).to_bytes(16, "big")
    assert kind == FLOAT64
    return chance.randrange(-1000, 1000) / 8


def _number(bits: int, signed: bool, chance: Chance) -> int:
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = (1 << (bits - 1 if signed else bits)) - 1
    edges = (lowest, highest, 0, 1)
    pick = chance.randrange(0, 8)
    return edges[pick] if pick < len(edges) else chance.randrange(lowest, highest + 1)


def request_seeds(chance: Chance) -> Iterator[tuple[int, int, bytes]]:
    """Yields (API key, version, frame without its length) for every version of every request."""
    for key in API_VERSIONS:
        api = API_VERSIONS[key]
        for version in range(api.lowest, api.highest_declared + 1):
            body = example(api.request, version, chance)
            yield key, version, encode_request(body, version, chance.randrange(0, 1 << 31), "fuzz")
