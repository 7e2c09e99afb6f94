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


def answer_size(value: Any, depth: int = 0) -> int:
    """Returns about how many bytes a value and its parts take. Parts that several share count for each."""
    size = sys.getsizeof(value, 0)
    if depth >= DEPTH_MAX:
        return size
    if isinstance(value, Mapping):
        return size + _of_items(value.items(), len(value), depth)
    if isinstance(value, list | tuple | set | frozenset):
        return size + _of_items(value, len(value), depth)
    if is_dataclass(value):
        parts = [getattr(value, each.name) for each in fields(value)]
        return size + sum(answer_size(part, depth + 1) for part in parts)
    return size


def _of_items(items: Iterable[Any], count: int, depth: int) -> int:
    # Deep in a tree fewer items are looked at: a sample costs little for any shape.
    sample = max(2, SAMPLE >> depth)
    sizes = [answer_size(each, depth + 1) for each in islice(items, sample)]
    return sum(sizes) * count // len(sizes) if sizes else 0
