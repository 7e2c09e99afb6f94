"""Carries the context of a trace in the headers of records.

Source: W3C Trace Context (https://www.w3.org/TR/trace-context/); values are UTF-8, as all clients write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import SpanContext, get_current_span

Pairs = list[tuple[Any, Any]]


class HeaderSetter(Setter[Pairs]):
    """Sets one header of a record; one of the same name that stood there goes."""

    def set(self, carrier: Pairs, key: str, value: str) -> None:
        """Sets header `key` to the text `value`."""
        carrier[:] = [pair for pair in carrier if pair[0] not in (key, key.encode())]
        carrier.append((key, value.encode()))


class HeaderGetter(Getter[Iterable[tuple[str, bytes | None]]]):
    """Reads headers of a record."""

    def get(self, carrier: Iterable[tuple[str, bytes | None]], key: str) -> list[str] | None:
        """Returns the values of header `key`, None if there is none."""
        found = [
            value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None
        ]
        return found or None

    def keys(self, carrier: Iterable[tuple[str, bytes | None]]) -> list[str]:
        """Returns the names of all headers."""
        return [name for name, _ in carrier]


_setter = HeaderSetter()
_getter = HeaderGetter()


def with_context(headers: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None, context: Context) -> Pairs:
    """Returns headers with those that carry `context`, by the process's propagators."""
    pairs: Pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
    propagate.inject(pairs, context=context, setter=_setter)
    return pairs


def context_of(headers: Iterable[tuple[str, bytes | None]]) -> SpanContext | None:
    """Returns the context that headers carry, None if they carry no valid one."""
    if not headers:
        return None
    # An empty context: without headers, the caller's own span must not pass for theirs.
    span = get_current_span(propagate.extract(headers, context=Context(), getter=_getter))
    found = span.get_span_context()
    return found if found.is_valid else None
