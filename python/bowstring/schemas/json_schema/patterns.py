"""Regular expressions of schemas: never run by a backtracking engine, because anyone may register one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

# Errors of RE2 that Java and JavaScript share; others are of syntax that only RE2 lacks, such as (?=…).
_SHARED_ERRORS = ("missing )", "missing ]", "unexpected )", "trailing \\", "no argument for repetition")


def fault_of_pattern(pattern: str) -> str | None:
    """Returns why no engine accepts `pattern`; None if one may."""
    compiled = _compiled(pattern)
    if isinstance(compiled, str) and compiled.startswith(_SHARED_ERRORS):
        return compiled
    return None


def has_match(pattern: str, name: str) -> bool:
    """Whether `pattern` matches somewhere in `name`, in linear time; False if RE2 lacks its syntax."""
    compiled = _compiled(pattern)
    return not isinstance(compiled, str) and compiled.search(name) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    """Returns the compiled pattern, or RE2's error as a string."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        cause = error.args[0] if error.args else ""
        return cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
    except UnicodeError:
        return "no valid text"
