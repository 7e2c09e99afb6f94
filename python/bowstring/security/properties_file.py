"""Parses Java's properties files."""

from __future__ import annotations

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> list[tuple[str, str, int]]:
    """Returns (key, value, line number) of each entry, parsed as java.util.Properties does."""
    entries = []
    logical, first_line = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip(" \t\f")
        if not logical:
            if not stripped or stripped[0] in "#!":
                continue
            first_line = number
        logical += stripped
        if _odd_backslashes(logical):
            logical = logical[:-1]
            continue
        entries.append((*_split_entry(logical), first_line))
        logical = ""
    if logical:
        entries.append((*_split_entry(logical), first_line))
    return entries


def _odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_entry(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(line[:end]), _unescape(rest).strip()


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    i = 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            i += 1
            char = text[i]
            if char == "u" and len(text) >= i + 5:
                char = chr(int(text[i + 1 : i + 5], 16))
                i += 4
            else:
                char = _ESCAPES.get(char, char)
        out.append(char)
        i += 1
    return "".join(out)
