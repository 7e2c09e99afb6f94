"""Chooses the types of answers, and finds the form of records in the type of a body."""

from __future__ import annotations

import re

from bowstring.protocol.whole_numbers import whole_number
from bowstring.web.http_error import HttpError

PLAIN = "application/vnd.kafka.v2+json"
JSON = "application/json"
FORMATS = ("binary", "json", "avro", "jsonschema", "protobuf")
SCHEMA_FORMATS = ("avro", "jsonschema", "protobuf")
RANGES_MAX = 50
_EMBEDDED = re.compile(r"application/vnd\.kafka\.([a-z]+)\.v2\+json")
_ANY = ("*/*", "application/*")
_WEIGHT = re.compile(r"([01])(?:\.([0-9]{0,3}))?")


def embedded(format: str) -> str:
    """Returns the type of bodies whose records have a form."""
    return f"application/vnd.kafka.{format}.v2+json"


ANSWERS = (PLAIN, JSON, *map(embedded, FORMATS))
"""Types of answers; the header Accept chooses."""
BODIES = (PLAIN, JSON)
"""Types of bodies without records."""


def format_of(media: str) -> str | None:
    """Returns the form of records that a type names; None if it names none."""
    found = _EMBEDDED.fullmatch(media)
    return found[1] if found is not None and found[1] in FORMATS else None


def content_format(content_type: str) -> str:
    """Returns the form of the records in a body; "binary" if the type names none, as Karapace takes it.

    Raises:
        HttpError: 415, it is another type.
    """
    media = content_type.partition(";")[0].strip().lower()
    if media in ("", PLAIN, JSON):
        return "binary"
    found = format_of(media)
    if found is None:
        raise HttpError(
            415, 415, f"HTTP 415 Unsupported Media Type: use {embedded('json')}, or another of these forms"
        )
    return found


def is_body_type(content_type: str) -> bool:
    """Returns whether a body without records may have a type."""
    media = content_type.partition(";")[0].strip().lower()
    return media in ("", PLAIN, JSON, *_ANY) or format_of(media) is not None


def answer_type(accept: str) -> str:
    """Returns the type of an answer without records.

    Args:
        accept: the header of the request.

    Raises:
        HttpError: 406.
    """
    for media in accepted(accept):
        if media in _ANY:
            return PLAIN
        if media in (PLAIN, JSON) or format_of(media) is not None:
            return media
    raise _not_acceptable(PLAIN)


def record_type(accept: str, format: str) -> str:
    """Returns the type of an answer with records.

    Args:
        accept: the header of the request; a type that names no form stands for the instance's.
        format: of the consumer instance.

    Raises:
        HttpError: 40601, another form is wanted; 406.
    """
    names_another = False
    for media in accepted(accept):
        if media in _ANY:
            return embedded(format)
        if media in (PLAIN, JSON) or format_of(media) == format:
            return media
        names_another = names_another or format_of(media) is not None
    if names_another:
        raise HttpError(
            406,
            40601,
            f"the consumer instance has the format {format}: accept {embedded(format)}, or make another one",
        )
    raise _not_acceptable(embedded(format))


def accepted(accept: str) -> list[str]:
    """Returns the types that a request accepts, the best first; all types without the header."""
    if not accept.strip():
        return ["*/*"]
    weighed: list[tuple[int, str]] = []
    for each in accept.split(",", RANGES_MAX)[:RANGES_MAX]:
        media, *parameters = each.split(";")
        weight = 1000
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                weight = _weight(value.strip())
        if weight:
            weighed.append((-weight, media.strip().lower()))
    return [media for _, media in sorted(weighed, key=lambda each: each[0])]


def _weight(text: str) -> int:
    found = _WEIGHT.fullmatch(text)
    if found is None:
        return 1000
    return min(1000, int(found[1]) * 1000 + (whole_number((found[2] or "").ljust(3, "0"), 999) or 0))


def _not_acceptable(media: str) -> HttpError:
    return HttpError(406, 406, f"HTTP 406 Not Acceptable: accept {media}")
