"""Filters, sorts and cuts lists for pages of 100 rows; all state is in the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from starlette.requests import Request

from bowstring.protocol.whole_numbers import whole_number

T = TypeVar("T")

ROWS = 100


class Paged(Generic[T]):
    """One page of a list, by `page`, `sort` and `order` of the query.

    Args:
        request: whose query chooses.
        rows: all rows that match the filter.
        keys: what rows are sorted by, by the name in the query; the first is the default.

    Attributes:
        rows: those of this page.
        total: rows of all pages.
        number, pages: this page, from 1, and how many there are.
        first, last: numbers of the rows shown, from 1.
        sort, order: the key, and "asc" or "desc".
    """

    def __init__(self, request: Request, rows: Sequence[T], keys: Mapping[str, Callable[[T], Any]]):
        given = request.query_params
        self.sort = given.get("sort", "")
        if self.sort not in keys:
            self.sort = next(iter(keys))
        self.order = "desc" if given.get("order") == "desc" else "asc"
        ordered = sorted(rows, key=keys[self.sort], reverse=self.order == "desc")
        self.total = len(ordered)
        self.pages = max(1, -(-self.total // ROWS))
        wanted = given.get("page", "1")
        self.number = min(self.pages, max(1, whole_number(wanted) or 1))
        self.first = (self.number - 1) * ROWS + 1 if self.total else 0
        self.last = min(self.number * ROWS, self.total)
        self.rows = ordered[(self.number - 1) * ROWS : self.number * ROWS]
