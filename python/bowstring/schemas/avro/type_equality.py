"""Decides whether two definitions of one name are the same."""

from __future__ import annotations

from bowstring.schemas.avro.avro_type import UNRESOLVED, AvroField, AvroType
from bowstring.schemas.avro.json_text import write_json


def are_equal(one: AvroType, other: AvroType, seen: set[tuple[int, int]] | None = None) -> bool:
    """Whether two types are equal as in Java: documentation and aliases do not count."""
    seen = set() if seen is None else seen
    if one is other or (id(one), id(other)) in seen:
        return True
    if one.kind != other.kind or one.name != other.name or one.kind == UNRESOLVED:
        return False
    seen.add((id(one), id(other)))
    return (
        (one.symbols, one.size) == (other.symbols, other.size)
        and write_json(one.properties, sort=True) == write_json(other.properties, sort=True)
        and (
            one.items is other.items
            or (one.items is not None and other.items is not None and are_equal(one.items, other.items, seen))
        )
        and len(one.branches) == len(other.branches)
        and all(are_equal(*pair, seen) for pair in zip(one.branches, other.branches, strict=True))
        and list(one.fields) == list(other.fields)
        and all(
            _are_equal_fields(*pair, seen)
            for pair in zip(one.fields.values(), other.fields.values(), strict=True)
        )
    )


def _are_equal_fields(one: AvroField, other: AvroField, seen: set[tuple[int, int]]) -> bool:
    return (
        (one.has_default, one.order) == (other.has_default, other.order)
        and write_json([one.default, one.properties], sort=True)
        == write_json([other.default, other.properties], sort=True)
        and are_equal(one.type, other.type, seen)
    )
