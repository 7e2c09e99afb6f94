"""What a schema says, by the kind of values that it speaks of: the model that two schemas are compared in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

Number = int | Decimal

# Most rules say little: what they do not say takes no memory.
_NONE: Mapping[str, Any] = MappingProxyType({})


class NodeKind(Enum):
    """What a schema is about; schemas of different kinds are not compared further."""

    ARRAY = auto()
    BOOLEAN = auto()
    COMBINED = auto()
    CONDITIONAL = auto()
    CONST = auto()
    EMPTY = auto()  # {}
    ENUM = auto()
    FALSE = auto()
    NOT = auto()
    NULL = auto()
    NUMBER = auto()
    OBJECT = auto()
    REFERENCE = auto()
    STRING = auto()
    TRUE = auto()


@dataclass(slots=True, eq=False)
class Node:
    """One schema. Nodes are compared by identity: references make cycles.

    A schema whose keywords speak of more than one kind of value is an allOf of one node for each.
    """

    kind: NodeKind = NodeKind.EMPTY
    rules: Any = None
    title: str | None = None
    description: str | None = None
    identifier: str | None = None
    default: str | None = None  # as JSON
    connect_type: str | None = None
    # In lists of schemas, the JSON that it is from, and which part of that: equal ones count once.
    origin: Any = None
    part: str = ""

    def become(self, other: Node) -> None:
        """Takes over what `other` says of values."""
        self.kind = other.kind
        self.rules = other.rules
        self.part = other.part


def _no_names() -> Mapping[str, Any]:
    return _NONE


@dataclass(slots=True, eq=False)
class StringRules:
    """What a schema says of strings."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(slots=True, eq=False)
class NumberRules:
    """What a schema says of numbers."""

    minimum: Number | None = None
    maximum: Number | None = None
    exclusive_minimum: Number | None = None
    exclusive_maximum: Number | None = None
    multiple_of: Number | None = None
    is_integer: bool = False


@dataclass(slots=True, eq=False)
class ObjectRules:
    """What a schema says of objects."""

    properties: Mapping[str, Node] = field(default_factory=_no_names)
    required: Set[str] = frozenset()
    patterns: Mapping[str, Node] = field(default_factory=_no_names)
    has_additional: bool = True
    additional: Node | None = None
    unevaluated: Node | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    needed_properties: Mapping[str, Set[str]] = field(default_factory=_no_names)
    needed_schemas: Mapping[str, Node] = field(default_factory=_no_names)


@dataclass(slots=True, eq=False)
class ArrayRules:
    """What a schema says of arrays."""

    items: Node | None = None
    prefix: Sequence[Node] = ()
    has_additional: bool = True
    additional: Node | None = None
    unevaluated: Node | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_contains: Number | None = None
    max_contains: Number | None = None
    is_unique: bool = False


@dataclass(slots=True, eq=False)
class CombinedRules:
    """allOf, anyOf or oneOf.

    Attributes:
        is_generated: Stands for keywords beside each other, or for a list of types; there is no such keyword.
    """

    criterion: str
    schemas: list[Node]
    is_generated: bool = False


def resolved(node: Node) -> Node:
    """Returns what a chain of references leads to; one that leads to itself says nothing."""
    seen = set()
    while node.kind is NodeKind.REFERENCE:
        if id(node) in seen:
            return _ANYTHING
        seen.add(id(node))
        node = node.rules
    return node


_ANYTHING = Node()
