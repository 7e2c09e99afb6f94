"""Parses and compares JSON schemas as Confluent's registry does.

Imported by: `bowstring.schemas.parsing`.
May import: `bowstring.schemas`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bowstring.schemas.json_schema.json_schema import JsonSchema
from bowstring.schemas.resolved_reference import ResolvedReference

__all__ = ["JsonSchema", "parse"]


def parse(text: str, references: Sequence[ResolvedReference]) -> JsonSchema:
    """Parses a JSON schema.

    Args:
        text: The schema.
        references: What it refers to, by the URIs that are their names.

    Raises:
        InvalidSchemaError: It is no JSON schema, or exceeds a limit.
    """
    return JsonSchema(text, {each.name: each.text for each in references})
