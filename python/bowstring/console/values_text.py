"""Writes values for pages: sizes, counts, ages, and text whose control characters are visible."""

from __future__ import annotations

import re
import time
from typing import Any

from markupsafe import Markup

# C0 controls but tab and line feed, DEL, C1 controls, and what changes the direction of text or is invisible.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MISSING = "–"


def visible(text: str) -> str:
    """Returns text with symbols for its control characters: a value must not change how a page reads."""
    return _UNSEEN.sub(_symbol, text)


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def finalized(value: Any) -> Any:
    """Makes each printed expression of a template visible; HTML of macros and plots stays."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value


def size_text(size: float | None) -> str:
    """Returns bytes in binary units: 1536 is "1.5 KiB"; None is a dash."""
    if size is None:
        return _MISSING
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes all")


def count_text(count: float | None) -> str:
    """Returns a whole number with thin spaces between thousands; None is a dash."""
    return _MISSING if count is None else f"{count:,.0f}".replace(",", "\u202f")


def rate_text(rate: float | None, unit: str = "") -> str:
    """Returns a rate per second in three digits: 12345 is "12.3 k/s"; None is a dash."""
    if rate is None:
        return _MISSING
    if unit == "B":
        return f"{size_text(rate)}/s"
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= scale:
            return f"{rate / scale:.3g} {prefix}/s"
    return f"{rate:.3g}/s"


def duration_text(ms: float | None) -> str:
    """Returns milliseconds in the two largest units: 90061000 is "1 d 1 h"; negative ones are "forever"."""
    if ms is None:
        return _MISSING
    if ms < 0:
        return "forever"
    if ms < 1000:
        return f"{ms:.0f} ms"
    left = int(ms // 1000)
    parts = []
    for seconds, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def age_text(at_ms: float | None) -> str:
    """Returns how long ago a time was (ms since 1970); unknown ones are a dash."""
    if at_ms is None or at_ms < 0:
        return _MISSING
    return f"{duration_text(max(0.0, time.time() * 1000 - at_ms))} ago"
