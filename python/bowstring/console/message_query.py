"""Reads the address of a view of messages: which records, in which order, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from bowstring.clients.errors import ConfigError
from bowstring.protocol.whole_numbers import LONG_MAX, whole_number
from bowstring.search.expression import Expression
from bowstring.search.record_filter import RecordFilter
from bowstring.search.record_search import SearchRequest, Start

COUNTS = (20, 50, 100, 200)
COUNT_DEFAULT = 50
VIEWS = {"tree": "Typed", "text": "Text", "hex": "Hex"}
STARTS: dict[str, Start] = {"": "first", "offset": "offset", "time": "time"}
# What a form of the page sets; the rest of an address is where a search goes on.
FILTERS = ("q", "key", "header", "partition", "expr", "committed")
_CURSOR = re.compile(r"\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*")


@dataclass(frozen=True)
class MessageQuery:
    """A view of messages.

    Attributes:
        request: what is searched; without a filter where `error` says that one is invalid.
        view: of the values, out of VIEWS.
        error: which part of the address is invalid, and what to write; "" if none is.
    """

    request: SearchRequest
    view: str
    error: str


def read_query(topic: str, given: Mapping[str, str]) -> MessageQuery:
    """Reads the query of an address. Never raises: what is invalid is described in the result."""
    errors: list[str] = []
    wanted = RecordFilter()
    partitions: tuple[int, ...] = ()
    at = 0
    start = STARTS.get(given.get("start", ""), "first")
    try:
        wanted = filter_of(given)
    except ConfigError as error:
        errors.append(str(error))
    try:
        partitions = _partitions(given.get("partition", ""))
        at = _at(start, given.get("at", ""))
    except ConfigError as error:
        errors.append(str(error))
    count = given.get("count", "")
    request = SearchRequest(
        topic,
        partitions,
        newest_first=given.get("order") != "oldest",
        start=start,
        at=at,
        count=min(max(int(count), 1), COUNTS[-1]) if _is_number(count) else COUNT_DEFAULT,
        committed=given.get("committed") == "1",
        wanted=wanted,
        cursor=_cursor(given.get("next", "")),
    )
    view = given.get("view", "")
    return MessageQuery(request, view if view in VIEWS else "tree", "; ".join(errors))


def filter_of(given: Mapping[str, str]) -> RecordFilter:
    """Returns the filter of an address.

    Raises:
        ConfigError: the expression is invalid.
    """
    header, _, header_value = given.get("header", "").partition("=")
    key, text = given.get("key", ""), given.get("expr", "")
    return RecordFilter(
        text=given.get("q", ""),
        key=key.encode(errors="replace") if key else None,
        header=header.strip(),
        header_value=header_value.strip(),
        expression=Expression(text) if text.strip() else None,
    )


def partitions_of(given: Mapping[str, str]) -> tuple[int, ...]:
    """Returns the partitions that an address names; none are all.

    Raises:
        ConfigError: they are not numbers.
    """
    return _partitions(given.get("partition", ""))


def cursor_text(cursor: Mapping[int, int]) -> str:
    """Returns a cursor as part of an address."""
    return ",".join(f"{partition}:{offset}" for partition, offset in cursor.items())


def _is_number(text: str) -> bool:
    return whole_number(text, LONG_MAX) is not None


def _partitions(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(_is_number(part) for part in parts):
        raise ConfigError(f"partition is {text[:50]!r}; write numbers such as 0, 3")
    return tuple(sorted({int(part) for part in parts}))


def _at(start: Start, text: str) -> int:
    text = text.strip()
    if start == "first":
        return 0
    if start == "offset":
        if not _is_number(text):
            raise ConfigError(f"the offset is {text[:50]!r}; write a number from 0")
        return int(text)
    try:
        if text.startswith("@") and _is_number(text[1:]):
            return int(text[1:])
        when = datetime.fromisoformat(text)
        return max(0, int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"the time is {text[:50]!r}; write one such as 2026-01-31T12:00 (UTC), or @ and milliseconds"
        ) from None


def _cursor(text: str) -> dict[int, int] | None:
    if not _CURSOR.fullmatch(text):
        return None
    pairs = [part.split(":") for part in text.split(",")]
    return {int(partition): int(offset) for partition, offset in pairs}
