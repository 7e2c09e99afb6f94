"""Prepares found records for pages: previews, trees of values, hex dumps. Everything in them is data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from bowstring.console.values_text import count_text, visible
from bowstring.search.record_search import FoundRecord
from bowstring.search.value_decoder import Decoded, ValueDecoder, plain_json

PREVIEW_CHARACTERS = 160
HEX_BYTES = 4_096
TEXT_CHARACTERS = 65_536
TREE_NODES = 500
LEAF_CHARACTERS = 4_096
OPEN_DEPTH = 2
PAGE_CHARACTERS = 1_000_000
"""Of all values of a page; further ones are cut to their preview."""
HEADERS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class MessageView:
    """A record as a page shows it.

    Attributes:
        partition, offset, timestamp: of the record; `timestamp` in milliseconds.
        time: `timestamp` in ISO 8601, UTC; a dash without one.
        key: the start of the key in one line; None for null.
        preview: the start of the value in one line; None for a tombstone.
        kind: how the value was decoded, such as "json"; "null" for a tombstone.
        schema_id: of the value; None without one.
        note: why the value is not shown as its schema says.
        key_size, value_size: bytes; -1 for null.
        is_cut: only the start of the value is shown.
        body: the value, as HTML.
        headers: name and text of each.
        headers_left: how many are not shown.
    """

    partition: int
    offset: int
    timestamp: int
    time: str
    key: str | None
    preview: str | None
    kind: str
    schema_id: int | None
    note: str
    key_size: int
    value_size: int
    is_cut: bool
    body: Markup
    headers: list[tuple[str, str | None]]
    headers_left: int


def views(found: Iterable[FoundRecord], decoder: ValueDecoder, view: str) -> list[MessageView]:
    """Returns records as a page shows them; `view` is "tree", "text" or "hex"."""
    left = PAGE_CHARACTERS
    result = []
    for each in found:
        made = one_view(each, decoder, view, left)
        left -= len(made.body)
        result.append(made)
    return result


def one_view(
    found: FoundRecord, decoder: ValueDecoder, view: str, characters_left: int = PAGE_CHARACTERS
) -> MessageView:
    """Returns a record as a page shows it."""
    record = found.record
    if found.is_cut:
        decoded = cut_value(record.value)
    else:
        decoded = decoder.decode_of(record.value, record.headers, "value")
    body, is_short = _body(record.value, decoded, view, max(characters_left, 0))
    headers = [(name, preview_of(value)) for name, value in record.headers[:HEADERS_SHOWN]]
    return MessageView(
        record.partition,
        record.offset,
        record.timestamp,
        time_text(record.timestamp),
        preview_of(record.key),
        _preview(decoded, record.value),
        decoded.kind,
        decoded.schema_id,
        decoded.note,
        found.key_size,
        found.value_size,
        found.is_cut or is_short,
        body,
        headers,
        len(record.headers) - len(headers),
    )


def time_text(timestamp_ms: int) -> str:
    """Returns a record's time in ISO 8601, UTC; a dash without one, a number out of the calendar."""
    if timestamp_ms < 0:
        return "–"
    try:
        when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def preview_of(data: bytes | None) -> str | None:
    """Returns the start of a key or header in one line: text, or hex."""
    if data is None:
        return None
    part = data[: PREVIEW_CHARACTERS * 4]
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        if error.start < len(part) - 3 or len(part) == len(data):
            return _one_line("0x" + part.hex(), len(data) > PREVIEW_CHARACTERS // 2)
        text = part[: error.start].decode()  # cut within a character
    return _one_line(text, len(part) < len(data))


def cut_value(data: bytes | None) -> Decoded:
    """Decodes the start of a value, which is no whole JSON or Avro."""
    try:
        return Decoded("text", (data or b"").decode())
    except UnicodeDecodeError as error:
        if data is not None and error.start >= len(data) - 3:
            return Decoded("text", data[: error.start].decode())
        return Decoded("bytes", None)


def _one_line(text: str, is_cut: bool) -> str:
    line = visible(text[:PREVIEW_CHARACTERS]).replace("\n", "␊").replace("\t", "␉")
    return line + "…" if is_cut or len(text) > PREVIEW_CHARACTERS else line


def _preview(decoded: Decoded, data: bytes | None) -> str | None:
    if data is None:
        return None
    if decoded.kind in ("avro", "protobuf"):
        return _one_line(_json_text(decoded.value)[: PREVIEW_CHARACTERS + 1], False)
    return preview_of(data)


def _json_text(tree: Any, indent: int | None = None) -> str:
    return json.dumps(plain_json(tree), ensure_ascii=False, indent=indent)


def _body(data: bytes | None, decoded: Decoded, view: str, left: int) -> tuple[Markup, bool]:
    """Returns the value as HTML, and whether it is not whole."""
    if data is None:
        return Markup('<p class="soft">null (a tombstone)</p>'), False
    if not left:
        return Markup('<p class="soft">{}</p>').format("This page is full: open the record alone."), True
    if view == "hex" or (decoded.kind == "bytes"):
        return Markup('<pre class="hex">{}</pre>').format(hex_lines(data[:HEX_BYTES])), len(data) > HEX_BYTES
    if view == "tree" and isinstance(decoded.value, (dict, list)):
        tree = _Tree()
        return tree.node(decoded.value, 0), tree.is_cut
    if decoded.kind == "text" or (decoded.kind == "json" and view == "text"):
        text = decoded.value if decoded.kind == "text" else data.decode(errors="replace")
    else:
        text = _json_text(decoded.value, indent=2)
    limit = min(TEXT_CHARACTERS, left)
    return Markup("<pre>{}</pre>").format(visible(text[:limit])), len(text) > limit


class _Tree:
    """Renders a value as nested lists that open and close without scripts."""

    def __init__(self) -> None:
        self._left = TREE_NODES
        self.is_cut = False

    def node(self, value: Any, depth: int) -> Markup:
        """Returns HTML of a value. The decoder has bounded the depth."""
        if not isinstance(value, (dict, list)) or not value:
            return self._leaf(value)
        is_dict = isinstance(value, dict)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        what = f"{count_text(len(value))} {'field' if is_dict else 'item'}{'s' if len(value) > 1 else ''}"
        items = []
        for name, each in pairs:
            if self._left <= 0:
                self.is_cut = True
                items.append(Markup('<li class="soft">…</li>'))
                break
            self._left -= 1
            label = visible(str(name))[:LEAF_CHARACTERS]
            inner = self.node(each, depth + 1)
            items.append(Markup('<li><span class="tree-name">{}</span> {}</li>').format(label, inner))
        opened = Markup(" open") if depth < OPEN_DEPTH else Markup("")
        return Markup("<details{}><summary>{}</summary><ul>{}</ul></details>").format(
            opened, what, Markup("").join(items)
        )

    def _leaf(self, value: Any) -> Markup:
        kind = "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "plain"
        if isinstance(value, bytes):
            text = "0x" + value[:LEAF_CHARACTERS].hex()
        elif isinstance(value, (str, dict, list)) or value is None or isinstance(value, bool):
            text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else f'"{value}"'
        else:
            text = str(value)
        if len(text) > LEAF_CHARACTERS:
            self.is_cut = True
            text = text[:LEAF_CHARACTERS] + "…"
        return Markup('<span class="tree-{}">{}</span>').format(kind, escape(visible(text)))


def hex_lines(data: bytes) -> str:
    """Formats bytes as a hex dump: offset, sixteen bytes, and their ASCII characters."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{at:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {shown}")
    return "\n".join(lines)
