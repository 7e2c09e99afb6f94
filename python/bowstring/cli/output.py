"""Prints tables for people, JSON for programs, and errors in one line."""

from __future__ import annotations

import base64
import json
import logging
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.markup import escape

from bowstring.cli.tables import Cell, FittedTable, safe

CLIENT_LOGS = ("bowstring.consumer", "bowstring.producer", "bowstring.admin")


@cache
def console() -> Console:
    """Returns the console for standard output. Does not wrap text that goes to a file."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def error_console() -> Console:
    """Returns the console for standard error."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def markup(text: str) -> str:
    """Returns text of others as markup that shows it."""
    return escape(safe(text))


def print_error(message: str) -> None:
    """Prints an error in one line."""
    error_console().print(f"[bold red]bowstring:[/] {markup(message)}")


class ClientLines(logging.Handler):
    """Prints client log messages for commands that request them; most commands fail with the same error
    soon.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shown = False

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a message."""
        if self.shown:
            print_error(record.getMessage())

    def __enter__(self) -> Self:
        self.shown = False
        for name in CLIENT_LOGS:
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for name in CLIENT_LOGS:
            logging.getLogger(name).removeHandler(self)


client_lines = ClientLines()


def print_note(message: str) -> None:
    """Prints messages on standard error, so that they never mix with data."""
    error_console().print(f"[green]✓[/] {markup(message)}")


def print_hint(message: str) -> None:
    """Prints why nothing was done; on standard error, so that it never mixes with data."""
    error_console().print(markup(message))


def print_json(value: Any) -> None:
    """Prints JSON: indented on a terminal, otherwise in one line."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], title: str | None = None) -> None:
    """Prints a table under its title, which is markup."""
    if title is not None:
        console().print(f"[bold]{title}[/]", soft_wrap=True)
    print_parts(FittedTable(columns, rows))


def print_parts(parts: RenderableType) -> None:
    """Prints tables and text; words that are wider than the terminal continue in the next line."""
    console().print(parts, crop=False)


def table_on_stderr(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Prints a table beside data that goes to standard output."""
    error_console().print(FittedTable(columns, rows), crop=False)


def size_text(size_bytes: int) -> str:
    """Formats bytes in the largest unit with a value of at least 1, e.g. `1.4 GiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def time_text(timestamp_ms: int) -> str:
    """Formats a timestamp as ISO 8601 in UTC with milliseconds; a dash for a record without a timestamp."""
    if timestamp_ms < 0:
        return "–"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
    except (OverflowError, ValueError):  # beyond the year 9999
        return str(timestamp_ms)


def payload_text(data: bytes | None) -> str | None:
    """Returns bytes as text for people; escapes bytes that are not UTF-8."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def payload_json(data: bytes | None) -> Any:
    """Returns bytes for JSON without loss: text when they are UTF-8, else `{"base64": …}`."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def header_key_bytes(key: str) -> bytes:
    """The bytes of a header's key: surrogates of decoding stand for bytes that are not UTF-8."""
    return key.encode("utf-8", "surrogateescape")


def payload_from_json(value: Any) -> bytes | None:
    """Reverses payload_json; other JSON values become their text.

    Raises:
        ValueError: `base64` is malformed.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
