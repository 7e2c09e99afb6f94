"""Random Avro values of every type."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import random
from typing import Any

import fastavro

INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "x", "type": "int"}, {"name": "e2", "type": "E"}],
}

EVERYTHING = {
    "type": "record",
    "name": "R",
    "namespace": "ns",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "boolean"},
        {"name": "s", "type": "string"},
        {"name": "by", "type": "bytes"},
        {"name": "fx", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}},
        {"name": "arr", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "r", "type": ["null", INNER]},
        {"name": "u", "type": ["null", "string", "long", "Inner"]},
        {"name": "u2", "type": ["string", "null"]},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
        {
            "name": "decf",
            "type": {
                "type": "fixed",
                "name": "DF",
                "size": 6,
                "logicalType": "decimal",
                "precision": 10,
                "scale": 2,
            },
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tm", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "n", "type": "null"},
    ],
}


def written(schema: Any, *rows: dict[str, Any]) -> list[bytes]:
    """Encodes with fastavro."""
    parsed = fastavro.parse_schema(schema)
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        values.append(out.getvalue())
    return values


def random_row(seed: int) -> dict[str, Any]:
    r = random.Random(seed)
    inner = lambda: {"x": r.randint(-5, 5), "e2": r.choice("ABC")}  # noqa: E731
    return {
        "i": r.choice([0, -1, -(2**31), 2**31 - 1, r.randint(-99, 99)]),
        "l": r.choice([None, -(2**63), 2**63 - 1, r.randint(-99, 99)]),
        "f": float(r.randint(0, 100)),
        "d": r.random(),
        "b": r.random() < 0.5,
        "s": "é😀a"[: r.randint(0, 3)] * r.randint(0, 5),
        "by": r.randbytes(r.randint(0, 3)),
        "fx": r.randbytes(4),
        "e": r.choice("ABC"),
        "arr": [r.choice([None, "x"]) for _ in range(r.randint(0, 3))],
        "m": {str(j): [1] * j for j in range(r.randint(0, 3))},
        "r": r.choice([None, inner()]),
        "u": r.choice([None, "txt", r.randint(0, 9), inner()]),
        "u2": r.choice([None, "z"]),
        "dec": decimal.Decimal(r.choice([0, -1, 127, 128, -128, -129, 10**20 - 1])).scaleb(-3),
        "decf": decimal.Decimal(r.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2),
        "day": dt.date(2020, 1, 1) + dt.timedelta(r.randint(-9999, 9999)),
        "ts": dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=r.randint(0, 10**12)),
        "tm": dt.time(1, 2, 3, r.randint(0, 999999)),
        "n": None,
    }


def as_arrow(row: dict[str, Any]) -> dict[str, Any]:
    """Converts a row to Arrow's form: maps are pairs, a union of several types is a struct."""
    u = row["u"]
    members = {"member0": u if isinstance(u, str) else None, "member1": u if isinstance(u, int) else None}
    members["member2"] = u if isinstance(u, dict) else None
    return {**row, "m": [*row["m"].items()], "u": None if u is None else members}


ROWS = [random_row(seed) for seed in range(200)]
VALUES = written(EVERYTHING, *ROWS)
