"""Defines the options, output lines and findings of `dump-log`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_INT32 = 0x7FFFFFFF


@dataclass(slots=True)
class Options:
    """Options of the command."""

    print_data: bool
    deep: bool
    verify_only: bool
    sanity_only: bool
    skip_metadata: bool
    max_bytes: int | None
    decoder: str | None


@dataclass(slots=True)
class Line:
    """One line of output: as text, and as fields for --json."""

    text: str
    fields: dict[str, Any]


@dataclass(slots=True)
class Findings:
    """Defects of the files; each is printed to standard error at the end."""

    problems: list[str] = field(default_factory=list)

    def add(self, headline: str, *details: str) -> None:
        """Adds a defect."""
        self.problems += [headline, *(f"  {detail}" for detail in details)]
