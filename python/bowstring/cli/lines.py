"""Lines of text or JSON, read as records."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from bowstring.cli.output import payload_from_json
from bowstring.clients.errors import ConfigError


class Line(NamedTuple):
    """A record as one line of input says it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    partition: int | None


class LineFormat(NamedTuple):
    """How lines become records. `key` is that of every record, unless a separator splits it off."""

    json: bool = False
    key: bytes | None = None
    separator: bytes | None = None
    null: bytes | None = None

    def read(self, line: bytes, number: int) -> Line:
        """The record of the line with this number.

        Raises:
            ConfigError: the line is not of this format; the message names it.
        """
        text = line.rstrip(b"\r\n")
        return _json_line(text, number) if self.json else _text_line(text, number, self)


def _text_line(text: bytes, number: int, form: LineFormat) -> Line:
    key: bytes | None = form.key
    value: bytes | None = text
    if form.separator is not None:
        key, found, value = text.partition(form.separator)
        if not found:
            raise ConfigError(f"line {number} has no key separator {form.separator.decode()!r}")
    if form.null is not None:
        key = None if key == form.null else key
        value = None if value == form.null else value
    return Line(key, value, (), None, None)


def _json_line(text: bytes, number: int) -> Line:
    try:
        fields: dict[str, Any] = json.loads(text)
        headers = fields.get("headers") or []
        pairs = headers.items() if isinstance(headers, dict) else [(h["key"], h["value"]) for h in headers]
        return Line(
            payload_from_json(fields.get("key")),
            payload_from_json(fields.get("value")),
            tuple((str(name), payload_from_json(value)) for name, value in pairs),
            fields.get("timestamp"),
            fields.get("partition"),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f'line {number} is no record in JSON, such as {{"key": "k", "value": "v"}}: {error}'
        ) from error
