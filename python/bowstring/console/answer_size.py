"""Estimates the memory of an answer of the cluster, by samples of its parts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

SAMPLE = 16
"""Items of a container that stand for all of them."""
DEPTH_MAX = 8


def answer_size(value: Any) -> int:
    """Returns about how many bytes a value and its parts take. What several parts share counts once: clients
    keep partitions that are alike in one object.
    """
    return _size(value, 0, set())


def _size(value: Any, depth: int, seen: set[int]) -> int:
    if id(value) in seen:
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value, 0)
    if depth >= DEPTH_MAX:
        return size
    if isinstance(value, Mapping):
        return size + _of_items(value.items(), len(value), depth, seen)
    if isinstance(value, list | tuple | set | frozenset):
        return size + _of_items(value, len(value), depth, seen)
    if is_dataclass(value):
        parts = [getattr(value, each.name) for each in fields(value)]
        return size + sum(_size(part, depth + 1, seen) for part in parts)
    return size


def _of_items(items: Iterable[Any], count: int, depth: int, seen: set[int]) -> int:
    # Deep in a tree fewer items are looked at: a sample costs little for any shape.
    sample = list(islice(items, max(2, SAMPLE >> depth)))  # kept alive: ids of freed objects come again
    sizes = [_size(each, depth + 1, seen) for each in sample]
    return sum(sizes) * count // len(sizes) if sizes else 0
