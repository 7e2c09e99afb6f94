"""What commands print: tables for people, JSON for programs, errors in one line."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Cell = str | int | float | None


@cache
def console() -> Console:
    """Standard output. Text keeps its lines when it goes to a file."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def error_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_error(message: str) -> None:
    """One readable line."""
    error_console().print(f"[bold red]bowstring:[/] {escape(message)}")


def print_note(message: str) -> None:
    """What was done, for people; on standard error, so that it never mixes with data."""
    error_console().print(f"[green]✓[/] {escape(message)}")


def print_json(value: Any) -> None:
    """JSON in one piece, indented for a terminal and in one line otherwise."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table; numbers stand right, None is shown as a dash."""
    made = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold cyan",
        pad_edge=False,
        show_edge=False,
    )
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        values = [row[index] for row in cells]
        numbers = any(isinstance(value, int | float) for value in values)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        made.add_row(*[_text(value) for value in row])
    return made


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], title: str | None = None) -> None:
    """Prints a table under its title, which is markup; wider than the terminal it folds its cells."""
    made = table(columns, rows)
    out = console()
    if not sys.stdout.isatty():
        out = Console(highlight=False, width=max(80, Console(width=1000).measure(made).maximum))
    if title is not None:
        out.print(f"[bold]{title}[/]", soft_wrap=True)
    out.print(made)


def _text(value: Cell) -> str:
    if value is None:
        return "[dim]–[/]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return escape(value)


def size_text(size_bytes: int) -> str:
    """Bytes in the largest unit that leaves a number above 1, e.g. `1.4 GiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def time_text(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; a dash for a record without a time."""
    if timestamp_ms < 0:
        return "–"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
    except (OverflowError, ValueError):  # beyond the year 9999
        return str(timestamp_ms)


def payload_text(data: bytes | None) -> str | None:
    """Bytes as text for people; what is no UTF-8 is escaped."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def payload_json(data: bytes | None) -> Any:
    """Bytes for JSON: text when they are UTF-8, else `{"base64": …}`, so that nothing is lost."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def payload_from_json(value: Any) -> bytes | None:
    """The reverse of payload_json; other JSON values become their text.

    Raises:
        ValueError: `base64` is not.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
