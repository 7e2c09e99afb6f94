"""Requests of every API with hostile values, by a seed: typical for a field's name, or boundary values."""

import random
from typing import Any, TypeVar

from bowstring.protocol import API_VERSIONS, encode_request
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
from tests.support.wire import batch, record

S = TypeVar("S", bound=Struct)

TOPICS = ("t0", "t1", "t2")
# Stands for bytes that are not UTF-8, which no encoder writes.
NOT_UTF8 = "Z" * 12000

_BITS = {INT8: 8, INT16: 16, UINT16: 16, INT32: 32, UINT32: 32, INT64: 64}
_UNSIGNED = {UINT16, UINT32}
_TEXTS = (
    "",
    "\0",
    "é",
    "日本🚀",
    "x" * 249,
    "x" * 250,
    ".",
    "../..",
    "a b",
    "a:b",
    "%s",
    "x" * 32767,
    NOT_UTF8,
)
_INTERNAL = ("__consumer_offsets", "__share_group_state", "__transaction_state", "__cluster_metadata")
# By a part of a field's name; the first that fits.
_EXPECTED: dict[str, tuple[str, ...]] = {
    "resource_name": (*TOPICS, "g0", "1", ""),
    "topic": (*TOPICS, "new", *_INTERNAL),
    "transactional": ("tx0", "tx1"),
    "group": ("g0", "g1", "g2"),
    "member": ("", "m0", "m1", "x" * 36),
    "instance": ("i0", "i1"),
    "regex": ("t.*", "(a+)+$", "[", "(?<=a)b", "x{1000}{1000}"),
    "protocol": ("consumer", "range", ""),
    "value": ("", "1", "-1", "compact", "by_duration:P999999999999D", "9" * 20, "NaN", "true", "5_0"),
    "feature": ("metadata.version", "share.version", "group.version", "x"),
    "name": (*TOPICS, "new", "retention.ms", "cleanup.policy", "share.auto.offset.reset", "range"),
}
_NUMBERS: dict[str, tuple[int, ...]] = {
    "epoch": (-5, -2, -1, 0, 0, 1, 2),
    "type": (-1, 0, 1, 2, 3, 4, 32),
    "operation": (-1, 0, 1, 2, 3),
    "index": (-1, 0, 0, 0, 1, 2),
    "partition": (-1, 0, 0, 0, 1, 2),
    "offset": (-3, -2, -1, 0, 1, 5, 1000),
    "_ms": (-1, 0, 1, 50, 100),
}
_BLOBS = (b"", b"\0", b"\0\1\0\0\0\1\0\2t0\xff\xff\xff\xff", bytes(range(256)))
_RECORDS = (
    b"",
    batch(record(b"v"), 1),
    batch(record(b"v"), 1, crc=0),
    batch(record(b"v"), 1, producer=(1, 0, 0)),
)
_FLOATS = (0.0, -1.0, 1e308, float("nan"), float("inf"), -float("inf"))


class HostileRequests:
    """Makes requests. The same seed makes the same ones.

    Args:
        topic_ids: Of topics that exist.
    """

    def __init__(self, seed: int, topic_ids: tuple[bytes, ...]) -> None:
        self._rng = random.Random(seed)
        self._ids = (bytes(16), b"\xff" * 16, *topic_ids, *topic_ids)

    def payload(self, key: int) -> tuple[int, bytes]:
        """Returns the version and the payload of the next request of an API."""
        api = API_VERSIONS[key]
        version = self._rng.randint(api.lowest, api.highest)
        payload = encode_request(self._filled(api.request, version, 0), version, 1, "hostile")
        text = NOT_UTF8.encode()
        return version, payload.replace(text, b"\xff" * len(text))

    def _filled(self, declared: type[S], version: int, depth: int) -> S:
        values = {
            field.name: self._value(field, version, depth)
            for field in fields_of(declared)
            if field.versions[0] <= version <= field.versions[1]
        }
        return declared(**values)

    def _value(self, field: Field, version: int, depth: int) -> Any:
        rng = self._rng
        if field.nullable[0] <= version <= field.nullable[1] and rng.random() < 0.15:
            return None
        if field.kind != ARRAY:
            return self._plain(field, field.kind, version, depth)
        count = rng.choice((0, 1, 1, 1, 2, 3)) if depth or rng.random() < 0.97 else 100
        items = [self._plain(field, field.element, version, depth) for _ in range(count)]
        return items + items[:1] if rng.random() < 0.15 else items

    def _plain(self, field: Field, kind: int, version: int, depth: int) -> Any:
        rng = self._rng
        if kind == STRUCT:
            assert field.struct is not None
            return self._filled(field.struct, version, depth + 1)
        if kind in _BITS:
            return self._number(field.name, _BITS[kind], signed=kind not in _UNSIGNED)
        if kind == STRING:
            return self._text(field.name)
        samples: dict[int, tuple[Any, ...]] = {
            BOOL: (False, True),
            BYTES: _BLOBS,
            RECORDS: _RECORDS,
            UUID: self._ids,
            FLOAT64: _FLOATS,
        }
        return rng.choice(samples[kind])

    def _text(self, name: str) -> str:
        expected = next((texts for part, texts in _EXPECTED.items() if part in name), _TEXTS)
        return self._rng.choice(_TEXTS if self._rng.random() < 0.12 else expected)

    def _number(self, name: str, bits: int, *, signed: bool) -> int:
        lowest = -(1 << (bits - 1)) if signed else 0
        highest = (1 << (bits - 1 if signed else bits)) - 1
        expected = next((numbers for part, numbers in _NUMBERS.items() if part in name), (-1, 0, 1, 2, 7))
        # Timeouts that last for weeks are fair, and would only keep connections waiting.
        edges = (lowest, lowest + 1) if name.endswith("_ms") else (lowest, lowest + 1, highest - 1, highest)
        chosen = self._rng.choice(edges if self._rng.random() < 0.2 else expected)
        return min(max(chosen, lowest), highest)
