"""Compiles patterns and fills replacements as Java's regular expressions do, for rules written for Kafka."""

import re
from typing import Final

REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)
"""What stands for something else in a replacement: an escaped character, a group by number, one by name."""


def compiled(pattern: str) -> re.Pattern[str]:
    """Returns a pattern. Java writes (?<name>…) for Python's (?P<name>…).

    Raises:
        re.error: It is malformed.
    """
    return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))


def filled(replacement: str, found: re.Match[str]) -> str:
    """Returns a replacement with the groups of a match. Numbers without a group stay as they are."""

    def one(part: re.Match[str]) -> str:
        if part[1] is not None:
            return part[1]
        if part[3] is not None:
            return found[part[3]] or ""
        digits, rest = part[2], ""
        # As in Java, $12 is group 1 and a 2 where there are fewer than 12 groups.
        while int(digits) > found.re.groups and len(digits) > 1:
            digits, rest = digits[:-1], digits[-1] + rest
        if int(digits) > found.re.groups:
            return part[0]
        return (found[int(digits)] or "") + rest

    return REFERENCE.sub(one, replacement)
