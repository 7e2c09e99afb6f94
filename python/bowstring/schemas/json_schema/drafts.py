"""The drafts of JSON Schema, and which one a schema is written in."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from bowstring.distribution import install_command
from bowstring.schemas.errors import InvalidSchemaError


class Draft(IntEnum):
    """A draft, in order of time."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020

    @property
    def id_keyword(self) -> str:
        """The keyword that names a schema."""
        return "id" if self is Draft.DRAFT_4 else "$id"


_NAMES = {
    "json-schema.org/schema": Draft.DRAFT_4,
    "json-schema.org/draft-04/schema": Draft.DRAFT_4,
    "json-schema.org/draft-06/schema": Draft.DRAFT_6,
    "json-schema.org/draft-07/schema": Draft.DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Draft.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020_12,
}


def draft_of(schema: Any) -> Draft:
    """Returns the draft that `$schema` names; draft 7 if it names none, as Confluent's registry does.

    Raises:
        InvalidSchemaError: `$schema` is no string.
    """
    name = schema.get("$schema", "") if isinstance(schema, dict) else ""
    if not isinstance(name, str):
        raise InvalidSchemaError("#/$schema must be a string")
    return _NAMES.get(_plain(name), Draft.DRAFT_7)


def meta_schema(uri: str) -> Any | None:
    """Returns the JSON of the meta-schema at `uri`, also of its vocabularies; None if there is none.

    Raises:
        InvalidSchemaError: The package with the meta-schemas is missing.
    """
    name = _plain(uri)
    if not name.startswith("json-schema.org/"):
        return None
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        raise InvalidSchemaError(
            f"a $ref to {uri} needs the package jsonschema-specifications: {install_command('registry')}"
        ) from None
    known = {_plain(each): each for each in REGISTRY}
    return REGISTRY.contents(known[name]) if name in known else None


def _plain(uri: str) -> str:
    return uri.removesuffix("#").removeprefix("https://").removeprefix("http://")
