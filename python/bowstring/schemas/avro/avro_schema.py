"""Avro schemas of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bowstring.schemas.avro.avro_type import AvroType
from bowstring.schemas.avro.json_text import quoted
from bowstring.schemas.avro.reader_writer import differences
from bowstring.schemas.avro.type_parser import TypeParser
from bowstring.schemas.avro.type_writer import Form, TypeWriter
from bowstring.schemas.difference import Difference
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsed_schema import ParsedSchema
from bowstring.schemas.resolved_reference import ResolvedReference


def parse(text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = True) -> AvroSchema:
    """Parses a schema after everything that it refers to.

    Args:
        text: the schema.
        references: what it refers to, directly or not: each after what it refers to itself.
        is_new: whether names must be ASCII and defaults must fit; a stored schema may have been accepted
            without.

    Raises:
        InvalidSchemaError: the text, or that of a reference, is no Avro schema.
    """
    parser = TypeParser(is_new=is_new)
    outside = []
    for reference in references:
        try:
            outside.append(parser.parse(reference.text, is_reference=True).full_name)
        except InvalidSchemaError as error:
            place = f"subject {quoted(reference.subject)}, version {reference.version}"
            raise InvalidSchemaError(f"reference {quoted(reference.name)} ({place}): {error}") from None
    return AvroSchema(parser.parse(text), tuple(references), frozenset(outside), is_new=is_new)


class AvroSchema(ParsedSchema):
    """A parsed Avro schema.

    Args:
        root: its type.
        references: as given to `parse`.
        outside: full names of the types that the references define at their top.
        is_new: as given to `parse`.
    """

    kind: ClassVar[str] = "AVRO"
    __slots__ = ("_canonical", "_is_new", "_outside", "_references", "root")

    def __init__(
        self,
        root: AvroType,
        references: tuple[ResolvedReference, ...],
        outside: frozenset[str],
        *,
        is_new: bool,
    ) -> None:
        self.root = root
        self._references = references
        self._outside = outside
        self._is_new = is_new
        self._canonical = TypeWriter(Form.CANONICAL, outside).write(root)

    @property
    def canonical(self) -> str:
        """Java's `Schema.toString()`; types that a reference defines at its top are only named."""
        return self._canonical

    @property
    def name(self) -> str | None:
        """The full name of a record; `None` of other types."""
        return self.root.full_name if self.root.kind == "record" else None

    def normalized(self) -> AvroSchema:
        """The same with sorted aliases and properties, and defaults in the form of their types."""
        text = TypeWriter(Form.NORMAL, self._outside).write(self.root)
        return parse(text, self._references, is_new=self._is_new)

    def formatted(self, format: str) -> str:
        """The canonical text, or with `resolved` the schema with all references written out.

        Raises:
            InvalidSchemaError: that is too deep to be read.
        """
        if format.strip().lower() == "resolved":
            return TypeWriter(Form.CANONICAL).write(self.root)
        return self._canonical

    def differences(self, previous: ParsedSchema, is_lenient: bool = False) -> list[Difference]:
        """By the rules of Avro's schema resolution, as SchemaCompatibility of Java applies them."""
        assert isinstance(previous, AvroSchema)
        return differences(self.root, previous.root, len(self._canonical) + len(previous._canonical))

    @property
    def meaning(self) -> str:
        """The text without the order of properties and aliases, references written out."""
        try:
            return TypeWriter(Form.SORTED).write(self.root)
        except InvalidSchemaError:
            # Too deep with the references written out.
            return self._canonical

    def has_top_level_field(self, name: str) -> bool:
        """Whether it is a record with this field."""
        return name in self.root.fields
