"""Parses a schema of any type."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsed_schema import ParsedSchema
from bowstring.schemas.resolved_reference import ResolvedReference

# 50 MiB: more than any schema needs, and little enough to parse in seconds.
SCHEMA_BYTES_MAX = 50 << 20
# A longer text makes millions of objects, none of them garbage: collections would double the time.
COLLECTED_CHARACTERS_MAX = 1 << 20
# Each has `parse(text, references)`.
PACKAGES = {
    "AVRO": "bowstring.schemas.avro",
    "JSON": "bowstring.schemas.json_schema",
    "PROTOBUF": "bowstring.schemas.protobuf",
}


def parse_schema(
    kind: str, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = True
) -> ParsedSchema:
    """Parses a schema.

    Args:
        kind: "AVRO", "JSON" or "PROTOBUF".
        text: the schema.
        references: everything it refers to, directly or not: each after what it refers to itself.
        is_new: whether it is about to be registered. A schema that is stored already may break rules that
            hold for new ones: it was accepted once.

    Raises:
        InvalidSchemaError: the kind is unknown, the text is too long, or it is no such schema.
    """
    length = len(text) + sum(len(each.text) for each in references)
    if length > SCHEMA_BYTES_MAX:
        raise InvalidSchemaError(
            f"the schema and its references have {length} characters; at most {SCHEMA_BYTES_MAX} are accepted"
        )
    pauses = length > COLLECTED_CHARACTERS_MAX and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        return _parse(kind, text, references, is_new)
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply; flatten it by named types") from None
    finally:
        if pauses:
            gc.enable()


def _parse(kind: str, text: str, references: Sequence[ResolvedReference], is_new: bool) -> ParsedSchema:
    """Imports the package of the kind, and nothing else."""
    if kind not in PACKAGES:
        raise InvalidSchemaError(f"unknown schema type {kind!r}; use AVRO, JSON or PROTOBUF")
    package: Any = import_module(PACKAGES[kind])
    parsed: ParsedSchema = (
        package.parse(text, references) if kind == "JSON" else package.parse(text, references, is_new=is_new)
    )
    return parsed
