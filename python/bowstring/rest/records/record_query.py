"""Reads which records a request asks for, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from bowstring.clients.consumer.read_bounds import Bound, Bounds
from bowstring.protocol.whole_numbers import whole_number
from bowstring.rest.client_failure import bad_request
from bowstring.web.http_error import HttpError

ARROW, NDJSON, CSV, EVENTS = "arrow", "ndjson", "csv", "events"
MEDIA = {
    NDJSON: "application/x-ndjson",
    ARROW: "application/vnd.apache.arrow.stream",
    CSV: "text/csv; charset=utf-8",
    EVENTS: "text/event-stream",
}
_ALSO = {
    "application/jsonl": NDJSON,
    "application/ndjson": NDJSON,
    "application/json-seq": "",
    "application/json": NDJSON,
    "*/*": NDJSON,
    "text/*": CSV,
    "application/*": NDJSON,
}
REGISTRY = "registry"
PARTS = ("string", "json", "base64", REGISTRY)
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
ISOLATION = ("read_uncommitted", "read_committed")
PARTITIONS_MAX = 10_000
LIMIT_MAX = 1 << 62
OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """What a request asks for.

    Attributes:
        topic: name of the topic.
        partitions: numbers; None for all.
        start, end: as of bowstring.read.
        limit: records at most; None for all.
        form: ARROW, NDJSON, CSV or EVENTS.
        key, value: "string", "json", "base64" or "registry".
        columns: of Arrow.
        read_committed: whether aborted and open transactions are left out.
    """

    topic: str
    partitions: tuple[int, ...] | None
    start: Bounds
    end: Bounds
    limit: int | None
    form: str
    key: str
    value: str
    columns: tuple[str, ...]
    read_committed: bool

    @property
    def decoded(self) -> tuple[str, ...]:
        """Which of "key" and "value" are decoded by schemas of a registry."""
        forms = {"key": self.key, "value": self.value}
        return tuple(field for field, form in forms.items() if form == REGISTRY)


def record_query(topic: str, query: Mapping[str, str], accept: str, last_event: str) -> RecordQuery:
    """Returns what a request asks for.

    Args:
        topic: name of the topic.
        query: parameters of the address.
        accept: the header Accept, if the query names no format.
        last_event: the header Last-Event-ID: where a tail goes on.

    Raises:
        HttpError: 400, a parameter is wrong; 406, no format is acceptable.
    """
    unknown = sorted(set(query) - set(PARAMETERS))
    if unknown:
        raise bad_request(f"unknown parameter {unknown[0]!r}; there are {', '.join(PARAMETERS)}")
    form = query.get("format") or _accepted(accept)
    if form not in MEDIA:
        raise bad_request(f"format is {form!r}; it must be one of {', '.join(MEDIA)}")
    start = query.get("from", "latest" if form == EVENTS else "earliest")
    if form == EVENTS and last_event:
        start = last_event
    columns = tuple(query["columns"].split(",")) if "columns" in query else COLUMNS
    if form != ARROW and "columns" in query:
        raise bad_request("columns can be chosen with format=arrow only")
    if not set(columns) <= set(COLUMNS) or len(set(columns)) != len(columns):
        raise bad_request(f"columns must be different ones of {', '.join(COLUMNS)}")
    return RecordQuery(
        topic,
        _partitions(query["partition"]) if "partition" in query else None,
        bounds("from", start),
        bounds("to", query.get("to", "latest")),
        _limit(query["limit"]) if "limit" in query else None,
        form,
        _word(query, "key", PARTS),
        _word(query, "value", PARTS),
        columns,
        _word(query, "isolation", ISOLATION) == "read_committed",
    )


PARAMETERS = {
    "from": "First record: earliest, latest, an offset, -n for the last n of each partition, a time such as "
    "2026-11-30T10:00:00Z, or offsets by partition: 0:15,1:20.",
    "to": "Where to end, in the same words; not included. Records that come later are not read.",
    "partition": "Numbers of partitions, with commas; all without it.",
    "limit": "Records at most.",
    "format": "ndjson, arrow, csv or events; else by the header Accept.",
    "key": "Form of keys in ndjson, csv and events: string, json or base64; registry: JSON by their schemas, "
    "and typed columns in arrow.",
    "value": "Form of values; as for keys.",
    "columns": "Columns of arrow, with commas.",
    "isolation": "read_uncommitted, or read_committed.",
}


def _word(query: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    found = query.get(name, words[0])
    if found not in words:
        raise bad_request(f"{name} is {found!r}; it must be one of {', '.join(words)}")
    return found


def _accepted(accept: str) -> str:
    if not accept:
        return NDJSON
    known = {media.partition(";")[0]: form for form, media in MEDIA.items()} | _ALSO
    for each in accept.split(","):
        form = known.get(each.partition(";")[0].strip().casefold())
        if form:
            return form
    raise HttpError(406, 406, f"HTTP 406 Not Acceptable: records come as {', '.join(MEDIA.values())}")


def _partitions(text: str) -> tuple[int, ...]:
    found = [whole_number(each, (1 << 31) - 1) for each in text.split(",", PARTITIONS_MAX)]
    if None in found:
        raise bad_request("partition must be numbers with commas between them, such as 0,1")
    return tuple(sorted({each for each in found if each is not None}))


def _limit(text: str) -> int:
    found = whole_number(text, LIMIT_MAX)
    if not found:
        raise bad_request("limit must be a number above 0")
    return found


def bounds(name: str, text: str) -> Bounds:
    """Returns a bound of a read, or bounds by partition.

    Raises:
        HttpError: 400, the text is none.
    """
    if ":" in text and "T" not in text.upper():
        found: dict[int, Bound] = {}
        for each in text.split(",", PARTITIONS_MAX):
            number, _, offset = each.partition(":")
            partition, at = whole_number(number, (1 << 31) - 1), whole_number(offset, OFFSET_MAX)
            if partition is None or at is None:
                raise bad_request(f"{name} is {text[:100]!r}; offsets by partition are written 0:15,1:20")
            found[partition] = at
        return found
    if text in ("earliest", "latest"):
        return text
    offset_at = whole_number(text.removeprefix("-"), OFFSET_MAX)
    if offset_at is not None:
        return -offset_at if text.startswith("-") else offset_at
    try:
        at_time = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise bad_request(
            f"{name} is {text[:100]!r}; it must be earliest, latest, an offset, or a time such as "
            "2026-11-30T10:00:00Z"
        ) from None
    return at_time if at_time.tzinfo is not None else at_time.replace(tzinfo=UTC)
