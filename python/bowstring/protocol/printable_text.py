"""Makes text that others wrote fit to be printed: names of clients, groups, users, hosts."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns text with an escape such as ``\\x1b`` for each character that could end a line, move a
    terminal's cursor or turn the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def printable_lines(text: str) -> str:
    """Returns the same of text that may have several lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
