"""Provides functions for kernels that read values: finding bytes and parsing numbers."""

from __future__ import annotations

from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.distribution import install_command

try:
    import numba
except ModuleNotFoundError as error:
    raise ConfigError(f"kernels need numba, which is not installed: {install_command('kernels')}") from error

ZERO, NINE, MINUS = 48, 57, 45


@numba.njit
def find(data: Any, pattern: bytes, start: int = 0) -> int:
    """Returns where `pattern` begins in `data` from `start` on, or -1.

    Examples:
        >>> import numpy as np
        >>> find(np.frombuffer(b'{"carrier":"UA"}', np.uint8), b'"carrier":"')
        1
    """
    last = len(data) - len(pattern)
    for at in range(start, last + 1):
        hit = True
        for j in range(len(pattern)):
            if data[at + j] != pattern[j]:
                hit = False
                break
        if hit:
            return at
    return -1


@numba.njit
def integer(data: Any, at: int) -> int:
    """Parses the decimal integer, with or without a minus, in `data` at `at`; returns 0 if there is none.

    Examples:
        >>> import numpy as np
        >>> integer(np.frombuffer(b'{"delay":-12}', np.uint8), 9)
        -12
    """
    sign = 1
    if at < len(data) and data[at] == MINUS:
        sign = -1
        at += 1
    found = 0
    while at < len(data) and ZERO <= data[at] <= NINE:
        found = found * 10 + (data[at] - ZERO)
        at += 1
    return sign * found
