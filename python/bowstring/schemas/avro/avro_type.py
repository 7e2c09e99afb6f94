"""The types of an Avro schema, resolved: a name stands for the object of its definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})
KINDS = PRIMITIVES | NAMED | {"array", "map", "union"}
# Types within types: more than people write, and few enough for Python's stack.
DEPTH_MAX = 150
# A name that nothing defines yet; replaced when the whole text is read.
UNRESOLVED = "unresolved"
# Shared by all types that have none; nothing writes to them.
_NO_PROPERTIES: dict[str, Any] = {}
_NO_FIELDS: dict[str, AvroField] = {}
_NO_BRANCHES: list[AvroType] = []


@dataclass(frozen=True, slots=True)
class AvroName:
    """The name of a record, enum or fixed, or an alias.

    Attributes:
        simple: without namespace.
        space: the namespace; `None` if there is none.
    """

    simple: str
    space: str | None

    @property
    def full(self) -> str:
        """The name with its namespace."""
        return self.simple if self.space is None else f"{self.space}.{self.simple}"

    def within(self, space: str | None) -> str:
        """How text in a namespace refers to it: a type's own word needs the full name."""
        if self.space is not None and self.space == space and self.simple not in KINDS:
            return self.simple
        return self.full


class AvroField:
    """A field of a record.

    Args:
        name: as written.
        of: the type of its values.

    Attributes:
        name: as written.
        type: of its values.
        doc: its documentation.
        has_default: whether it has a default, which may be `None`.
        default: as JSON.
        order: "ascending", "descending" or "ignore".
        aliases: other names, in the order of the text.
        properties: what Avro does not define.
    """

    # What most fields have; a field keeps only what it has of its own.
    doc: str | None = None
    has_default: bool = False
    default: Any = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = _NO_PROPERTIES

    def __init__(self, name: str, of: AvroType) -> None:
        self.name = name
        self.type = of


class AvroType:
    """A type; one object for each place in the text, and one for each definition.

    Primitive types without properties are the same objects everywhere.

    Args:
        kind: one of KINDS, or UNRESOLVED.
        name: of a record, enum or fixed.

    Attributes:
        kind: one of KINDS, or UNRESOLVED.
        name: of a record, enum or fixed.
        doc: its documentation.
        aliases: its other names.
        properties: what Avro does not define, with `logicalType` and what belongs to it.
        logical: the logical type, if it suits this type.
        is_error: whether a record is an error of a protocol.
        fields: of a record, by name.
        symbols: of an enum.
        default_symbol: of an enum.
        size: of a fixed, bytes.
        items: of an array or a map.
        branches: of a union.
    """

    doc: str | None = None
    aliases: tuple[AvroName, ...] = ()
    properties: dict[str, Any] = _NO_PROPERTIES
    logical: str = ""
    is_error: bool = False
    fields: dict[str, AvroField] = _NO_FIELDS
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    items: AvroType | None = None
    branches: list[AvroType] = _NO_BRANCHES

    def __init__(self, kind: str, name: AvroName | None = None) -> None:
        self.kind = kind
        self.name = name

    @property
    def full_name(self) -> str:
        """The full name of a named type, or its kind."""
        return self.kind if self.name is None else self.name.full


PRIMITIVE_TYPES = {kind: AvroType(kind) for kind in PRIMITIVES}
