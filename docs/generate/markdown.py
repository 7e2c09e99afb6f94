"""Writes Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, with an empty line before and after it."""
    yield ""
    yield _row(columns)
    yield _row(["---"] * len(columns))
    for row in rows:
        yield _row([_cell(each) for each in row])
    yield ""


def code(text: object) -> str:
    """Text as code."""
    return f"`{text}`"


def plain(text: str) -> str:
    """Text of docstrings and help, with what HTML would take for a tag escaped outside of code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
