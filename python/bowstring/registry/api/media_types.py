"""Chooses the media type of an answer, and checks the one of a request."""

from __future__ import annotations

from functools import lru_cache

from bowstring.web.http_error import HttpError

V1_JSON = b"application/vnd.schemaregistry.v1+json"
DEFAULT_JSON = b"application/vnd.schemaregistry+json"
JSON = b"application/json"
ANY_BYTES = b"application/octet-stream"
"""What clients that name no type send; it is read as JSON."""
# With the weights of Confluent's registry: how much it likes to answer with each.
ANSWERS = ((V1_JSON, 1.0), (DEFAULT_JSON, 0.9), (JSON, 0.5))
REQUESTS = frozenset((V1_JSON, DEFAULT_JSON, JSON, ANY_BYTES))
TYPES_MAX = 50
_KEPT_BYTES_MAX = 500
"""Of a header whose meaning is kept: clients choose its length."""


def answer_type(accept: bytes) -> bytes:
    """Returns the media type that an answer has.

    Args:
        accept: the header `Accept`; empty if there is none.

    Raises:
        HttpError: 406, the client takes none of those that exist.
    """
    return _answer_type(accept) if len(accept) <= _KEPT_BYTES_MAX else _answer_type.__wrapped__(accept)


@lru_cache(512)
def _answer_type(accept: bytes) -> bytes:
    if not accept:
        return V1_JSON
    wanted = [_weighted(each) for each in accept.lower().split(b",")[:TYPES_MAX]]
    best, found = (0.0, 0.0), b""
    for kind, own in ANSWERS:
        quality = _quality(kind, wanted)
        if quality > 0 and (quality, own) > best:
            best, found = (quality, own), kind
    if not found:
        raise HttpError(
            406, 406, f"Accept has none of {V1_JSON.decode()}, {DEFAULT_JSON.decode()}, {JSON.decode()}"
        )
    return found


def _weighted(entry: bytes) -> tuple[bytes, float]:
    kind, *parameters = (part.strip() for part in entry.split(b";"))
    quality = 1.0
    for parameter in parameters:
        if parameter.startswith(b"q="):
            try:
                quality = min(1.0, max(0.0, float(parameter[2:8])))
            except ValueError:
                quality = 0.0
    return kind, quality


def _quality(kind: bytes, wanted: list[tuple[bytes, float]]) -> float:
    """Returns how much a client likes a type: its most specific entry counts (RFC 9110, 12.5.1)."""
    for name in (kind, b"application/*", b"*/*", b"*"):
        qualities = [quality for each, quality in wanted if each == name]
        if qualities:
            return max(qualities)
    return 0.0


def check_request_type(content_type: bytes) -> None:
    """Checks the header `Content-Type` of a body; empty if there is none.

    Raises:
        HttpError: 415, the registry does not read such bodies.
    """
    kind = content_type.partition(b";")[0].strip().lower()
    if kind and kind not in REQUESTS:
        shown = kind[:100].decode("latin-1")
        raise HttpError(415, 415, f"Content-Type is {shown!r}; send {V1_JSON.decode()} or {JSON.decode()}")
