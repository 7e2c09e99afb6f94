"""Makes rows of the audit's status for people, for the command line and for the console."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from bowstring.audit.count_table import INCOMPLETE, Row

COLUMNS = ("topic", "window", "stage", "records", "share", "missing", "surplus", "state")


def share_text(share: float | None) -> str:
    """Formats a share as a percentage; only exactly 1 is 100 %."""
    if share is None:
        return "–"
    text = f"{100 * share:.2f}"
    if share < 1 and text == "100.00":
        text = "99.99"
    if share > 1 and text == "100.00":
        text = "100.01"
    return "100 %" if share == 1 else f"{text} %"


def window_text(start_ms: int, window_ms: int) -> str:
    """Formats a window as its start and end in UTC; the end's date only where it differs."""
    try:
        start = datetime.fromtimestamp(start_ms / 1000, UTC)
        end = datetime.fromtimestamp((start_ms + window_ms) / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # beyond the years 1 to 9999
        return f"{start_ms}–{start_ms + window_ms}"
    form = "%H:%M" if window_ms % 60_000 == 0 else "%H:%M:%S"
    same_day = start.date() == end.date()
    return f"{start:%Y-%m-%d {form}}–{end:{form if same_day else '%Y-%m-%d ' + form}}"


def cells(row: Row) -> list[str | int]:
    """Returns the cells of COLUMNS for a row."""
    window = window_text(row.start_ms, row.window_ms)
    is_first = row.stage == row.first
    return [
        row.topic,
        window,
        str(row.stage),
        row.records,
        "first" if is_first else share_text(row.share),
        row.missing,
        row.surplus,
        row.state,
    ]


def as_json(row: Row) -> dict[str, Any]:
    """Returns a row as JSON has it; times in ms since the epoch."""
    return {
        "topic": row.topic,
        "start_ms": row.start_ms,
        "window_ms": row.window_ms,
        "tier": row.stage.tier,
        "role": row.stage.role,
        "reader": row.stage.reader,
        "first": str(row.first),
        "records": row.records,
        "expected": row.expected,
        "share": row.share,
        "missing": row.missing,
        "surplus": row.surplus,
        "state": row.state,
    }


def incomplete(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows that miss records."""
    return [row for row in rows if row.state == INCOMPLETE]
