"""Plans how columns are encoded as values of an Avro schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.values.avro_plan import KINDS
from bowstring.values.avro_schema import AvroType

if TYPE_CHECKING:
    from bowstring._native.values.avro_encode import AvroEncodePlan

_SAME, _CHOICE, _DECIMAL = 0, 1, 3


def encode_plan(schema: AvroType, path: str = "") -> AvroEncodePlan:
    """Returns the plan of avro_encode for columns of the schema's Arrow type, see AvroEncoder."""
    kind = KINDS[schema.kind]
    if schema.kind == "union":
        branches = [i for i, each in enumerate(schema.branches) if each.kind != "null"]
        null = next((i for i, each in enumerate(schema.branches) if each.kind == "null"), -1)
        parts = [encode_plan(member, path) for member in schema.members]
        return kind, _CHOICE if schema.is_choice else _SAME, path, 0, null, [], branches, parts
    if schema.kind == "record":
        parts = [
            encode_plan(each.type, f"{path}.{each.name}" if path else each.name) for each in schema.fields
        ]
    elif schema.items is not None:
        parts = [encode_plan(schema.items, path + ("[]" if schema.kind == "array" else "{}"))]
    else:
        parts = []
    target = _DECIMAL if schema.is_decimal else _SAME
    return kind, target, path, schema.size, -1, [each.encode() for each in schema.symbols], [], parts
