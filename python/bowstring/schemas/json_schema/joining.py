"""Joins what keywords of one schema say, as Confluent's registry does for drafts from 2019-09."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields
from functools import lru_cache
from typing import Any

from bowstring.schemas.json_schema.nodes import CombinedRules, Node, NodeKind

_SMALLEST_TABLE = 16
_MERGED = (NodeKind.ARRAY, NodeKind.NUMBER, NodeKind.OBJECT, NodeKind.STRING)


def joined(whole: Node | None, part: Node) -> Node:
    """Returns what both say together; `whole` is what earlier keywords said, and may be changed."""
    if whole is None:
        return part
    if whole.kind is part.kind and whole.kind in _MERGED:
        return _merged(whole, part)
    for choice, other in ((whole, part), (part, whole)):
        if _is_generated(choice, "anyOf") and any(each.kind is other.kind for each in choice.rules.schemas):
            return _combined("anyOf", _accumulated(list(choice.rules.schemas), other))
    parts: list[Node] = []
    for each in (*_flat(whole), *_flat(part)):
        parts = _accumulated(parts, each)
    return _combined("allOf", parts)


def in_hash_order(names: Iterable[str]) -> list[str]:
    """Returns names in the order in which Java's HashMap has them, to which they were added as they come."""
    listed = list(names)
    size = _SMALLEST_TABLE
    while len(listed) > size * 3 // 4:
        size *= 2
    return sorted(listed, key=lambda name: _hash(name) & (size - 1))


@lru_cache(maxsize=1024)
def _hash(name: str) -> int:
    value = 0
    for unit in struct.iter_unpack(">H", name.encode("utf-16-be")):
        value = (value * 31 + unit[0]) & 0xFFFFFFFF
    return value ^ value >> 16


def _merged(left: Node, right: Node) -> Node:
    """Returns a node with what `right` says, and of `left` where `right` says nothing."""
    rules = type(left.rules)()
    for field in fields(rules):
        old, new, unsaid = (getattr(each, field.name) for each in (left.rules, right.rules, rules))
        value: Any = old if new == unsaid else new
        if isinstance(unsaid, Mapping):
            value = {**old, **new} if old and new else old or new
        elif isinstance(unsaid, Set):
            value = old | new
        elif isinstance(unsaid, Sequence):
            value = [*old, *new]
        setattr(rules, field.name, value)
    return Node(left.kind, rules, part=left.part)


def _accumulated(parts: list[Node], other: Node) -> list[Node]:
    """Returns `parts` with `other`, merged with the first of its kind if that can be."""
    if other.kind in _MERGED:
        for index, part in enumerate(parts):
            if part.kind is other.kind:
                parts[index] = _merged(part, other)
                return parts
    parts.append(other)
    return parts


def _flat(node: Node) -> list[Node]:
    return node.rules.schemas if _is_generated(node, "allOf") else [node]


def _is_generated(node: Node, criterion: str) -> bool:
    rules = node.rules
    return isinstance(rules, CombinedRules) and rules.is_generated and rules.criterion == criterion


def _combined(criterion: str, parts: list[Node]) -> Node:
    return Node(NodeKind.COMBINED, CombinedRules(criterion, parts, is_generated=True))
