"""Parses lines of text or JSON into records."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from bowstring.cli.output import payload_from_json
from bowstring.clients.errors import ConfigError


class Line(NamedTuple):
    """A record parsed from one line of input."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    partition: int | None


class LineFormat(NamedTuple):
    """How lines become records. `key` is the key of every record, unless a separator splits it off.

    A partition in JSON is that of the topic it was read from, and is used only with `partitions`.
    """

    json: bool = False
    key: bytes | None = None
    separator: bytes | None = None
    null: bytes | None = None
    partitions: bool = False

    def read(self, line: bytes, number: int) -> Line:
        """Parses a line; `number` is its line number.

        Raises:
            ConfigError: the line does not have this format; the message names it.
        """
        text = line.rstrip(b"\r\n")
        if not self.json:
            return _text_line(text, number, self)
        record = _json_line(text, number)
        return record if self.partitions else record._replace(partition=None)


def _text_line(text: bytes, number: int, form: LineFormat) -> Line:
    key: bytes | None = form.key
    value: bytes | None = text
    if form.separator is not None:
        key, found, value = text.partition(form.separator)
        if not found:
            raise ConfigError(
                f"line {number} has no key separator {form.separator.decode(errors='backslashreplace')!r}"
            )
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
            tuple((_header_key(name), payload_from_json(value)) for name, value in pairs),
            fields.get("timestamp"),
            fields.get("partition"),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f'line {number} is not a record in JSON, such as {{"key": "k", "value": "v"}}: {error}'
        ) from error


def _header_key(value: Any) -> str:
    """A header's key: text, or `{"base64": …}` for bytes that are not UTF-8."""
    data = payload_from_json(value)
    if data is None:
        raise ValueError("a header's key is null")
    return data.decode("utf-8", "surrogateescape")
