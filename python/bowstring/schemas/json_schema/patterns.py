"""Regular expressions of schemas: never run by a backtracking engine, because anyone may register one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Errors of RE2 that Java and JavaScript share; others are of syntax that only RE2 lacks, such as (?=…).
_SHARED_ERRORS = ("missing )", "missing ]", "unexpected )", "trailing \\", "no argument for repetition")
# Enough for what people write; a larger pattern takes more than a millisecond to compile.
_LARGEST_PROGRAM = 1 << 18  # bytes


def fault_of_pattern(pattern: str) -> str | None:
    """Returns why no engine accepts `pattern`; None if one may."""
    compiled = _compiled(pattern)
    if isinstance(compiled, str) and compiled.startswith(_SHARED_ERRORS):
        return compiled
    return None


def matcher(pattern: str) -> Callable[[str], bool]:
    """Returns what says whether a name has a match, in linear time; never, if RE2 lacks the syntax."""
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        return lambda name: False
    return lambda name: compiled.search(name) is not None


def _compiled(pattern: str) -> Any:
    """Returns the compiled pattern, or RE2's error as a string."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _LARGEST_PROGRAM
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        cause = error.args[0] if error.args else ""
        return cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
    except UnicodeError:
        return "no valid text"
