"""One parsed JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bowstring.schemas.difference import Difference
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema.change_kinds import BORNE_BY_LENIENT, BORNE_BY_STRICT
from bowstring.schemas.json_schema.changes import Changes, described
from bowstring.schemas.json_schema.comparison import Comparison
from bowstring.schemas.json_schema.drafts import Draft, draft_of
from bowstring.schemas.json_schema.json_text import LARGEST_TEXT, read_json, write_json
from bowstring.schemas.json_schema.newer_drafts import NewerDraftsLoader
from bowstring.schemas.json_schema.nodes import Node, NodeKind
from bowstring.schemas.json_schema.older_drafts import OlderDraftsLoader
from bowstring.schemas.parsed_schema import ParsedSchema

MOST_DIFFERENCES = 100


class JsonSchema(ParsedSchema):
    """A schema of draft 4, 6, 7, 2019-09 or 2020-12.

    Args:
        text: The schema.
        references: The texts of what it refers to, by the URIs that it does so with.

    Raises:
        InvalidSchemaError: It is no JSON, a keyword's value has the wrong type, a reference leads nowhere,
            or a limit is exceeded.
    """

    kind: ClassVar[str] = "JSON"

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        length = len(text) + sum(map(len, references.values()))
        if length > LARGEST_TEXT:
            raise InvalidSchemaError(
                f"the schema and its references are longer than {LARGEST_TEXT:,} characters together"
            )
        value = read_json(text)
        self._references = references
        self._canonical = write_json(value)
        self._node = _node_of(value, references)
        members = value if isinstance(value, dict) else {}
        self._name = members.get("title")
        properties = members.get("properties", {})
        self._fields = tuple(properties) if isinstance(properties, dict) else ()

    @property
    def canonical(self) -> str:
        """The text that is stored: without spaces, members in the order in which they were written."""
        return self._canonical

    @property
    def name(self) -> str | None:
        """The title; None if there is none."""
        return self._name

    def normalized(self) -> JsonSchema:
        """The same schema with the members of all objects in order of their names."""
        return JsonSchema(write_json(read_json(self._canonical), is_sorted=True), self._references)

    def formatted(self, format: str) -> str:
        """The canonical text: there is no other format.

        Args:
            format: Is not regarded.
        """
        return self._canonical

    def differences(self, previous: ParsedSchema, is_lenient: bool = False) -> list[Difference]:
        """What keeps readers with this schema from data that was written with `previous`: 100 at most.

        Args:
            previous: The other schema.
            is_lenient: By Confluent's `compatibilityPolicy` LENIENT: properties may come to open objects and
                leave closed ones.

        Raises:
            InvalidSchemaError: The comparison takes too many steps.
        """
        found = self.changes(previous, is_lenient).listed(MOST_DIFFERENCES)
        return [Difference(kind, path, described(kind), details=path) for kind, path in found]

    def changes(self, previous: ParsedSchema, is_lenient: bool = False) -> Changes:
        """Returns all changes, also those that readers bear.

        Raises:
            InvalidSchemaError: The comparison takes too many steps.
        """
        if not isinstance(previous, JsonSchema):
            raise TypeError(f"a JSON schema is compared with JSON schemas, not {previous.kind}")
        comparison = Comparison(BORNE_BY_LENIENT if is_lenient else BORNE_BY_STRICT)
        return comparison.compare(previous._node, self._node)

    def has_top_level_field(self, name: str) -> bool:
        """Whether `properties` of the schema has this name."""
        return name in self._fields


def _node_of(value: Any, references: Mapping[str, str]) -> Node:
    if isinstance(value, bool):
        return Node(NodeKind.TRUE if value else NodeKind.FALSE)
    if not isinstance(value, dict):
        raise InvalidSchemaError("#: a JSON schema is an object or a boolean")
    draft = draft_of(value)
    loader = NewerDraftsLoader if draft >= Draft.DRAFT_2019_09 else OlderDraftsLoader
    return loader(draft, value, references).load_root()
