"""Reads whole numbers from text that others wrote: clients, configs, names of files.

`str.isdigit` accepts what `int` refuses, such as "²", and `int` accepts what nobody means, such as "1_0".
"""

from __future__ import annotations

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

_MOST_DIGITS = 19  # of LONG_MAX; int() refuses thousands


def whole_number(text: str, most: int = INT_MAX) -> int | None:
    """Returns the number that `text` writes in ASCII digits; None if there is another character or none, or
    the number is greater than `most`.

    Args:
        most: At most 2^63.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        return None
    number = int(digits)
    return number if number <= most else None
