"""Pages of lists: `?offset=` and `?limit=`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from bowstring.registry import refusals

Item = TypeVar("Item")


def page(items: Iterable[Item], offset: int, limit: int, limit_max: int) -> list[Item]:
    """The items from `offset` on: at most `limit`, or `limit_max` if `limit` is more or not positive."""
    if offset < 0:
        raise refusals.bad_request(f"offset is {offset}; it must not be negative.")
    count = limit if 0 < limit <= limit_max else limit_max
    return list(islice(items, offset, offset + count))
