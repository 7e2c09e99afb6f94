"""Decides which records a search finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bowstring.clients.records import Record
from bowstring.search.expression import Expression
from bowstring.search.value_decoder import ValueDecoder

DECODED_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class RecordFilter:
    """What records must have; what is not given is not looked at.

    Attributes:
        text: in the value or the key; letters of ASCII match in upper and lower case.
        key: the whole key.
        header: name of a header.
        header_value: text in the header, or in any header if none is named.
        expression: see Expression.
    """

    text: str = ""
    key: bytes | None = None
    header: str = ""
    header_value: str = ""
    expression: Expression | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every record matches."""
        return self == RecordFilter()


class Matcher:
    """Applies a filter.

    Args:
        wanted: the filter.
        decoder: of values and keys, for expressions.

    Attributes:
        undecoded: records whose value was too large for the expression; it saw null.
    """

    def __init__(self, wanted: RecordFilter, decoder: ValueDecoder):
        self._wanted = wanted
        self._decoder = decoder
        self._text = wanted.text.encode(errors="replace").lower()
        self._header_value = wanted.header_value.encode(errors="replace").lower()
        self._by_header = bool(wanted.header or wanted.header_value)
        self._everything = wanted.is_empty
        self.undecoded = 0

    def matches(self, record: Record) -> bool:
        """Returns whether a search finds the record. Never raises."""
        if self._everything:
            return True
        wanted, text, key, value = self._wanted, self._text, record.key, record.value
        if wanted.key is not None and key != wanted.key:
            return False
        if text and not (
            (value is not None and text in value.lower()) or (key is not None and text in key.lower())
        ):
            return False
        if self._by_header and not self._has_header(record):
            return False
        if wanted.expression is None:
            return True
        names = _Names(record, self._decoder)
        found = wanted.expression.matches(names)
        self.undecoded += names.too_large
        return found

    def _has_header(self, record: Record) -> bool:
        part = self._header_value
        for name, value in record.headers:
            if self._wanted.header and name != self._wanted.header:
                continue
            if not part or (value is not None and part in value.lower()):
                return True
        return False


class _Names(Mapping[str, Any]):
    """What the names of an expression stand for; decodes what the expression reads."""

    def __init__(self, record: Record, decoder: ValueDecoder):
        self._record = record
        self._decoder = decoder
        self._known: dict[str, Any] = {}
        self.too_large = False

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns what a name stands for."""
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("value", "key", "headers", "partition", "offset", "timestamp"))

    def __len__(self) -> int:
        return 6

    def _find(self, name: str) -> Any:
        record = self._record
        if name == "value":
            return self._decoded(record.value, "value")
        if name == "key":
            # Keys that look like numbers or words are texts: `key == "1"`.
            found = self._decoded(record.key, "key")
            if isinstance(found, (dict, list)) or record.key is None:
                return found
            return _text(record.key)
        if name == "headers":
            return {each: _text(value) for each, value in record.headers}
        return {"partition": record.partition, "offset": record.offset, "timestamp": record.timestamp}.get(
            name
        )

    def _decoded(self, data: bytes | None, field: str) -> Any:
        if data is not None and len(data) > DECODED_BYTES_MAX:
            self.too_large = True
            return None
        return self._decoder.decode_of(data, self._record.headers, field).value


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
