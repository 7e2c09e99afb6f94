"""Reads points in time that records have: milliseconds since the epoch, or a datetime."""

from __future__ import annotations

import datetime as dt
import numbers
from typing import Any

from bowstring.clients.errors import ConfigError

# Seconds given by mistake are moments of January 1970, so that retention.ms deletes the records at once.
# Smaller numbers, the first day of 1970, are what tests give.
SECONDS_FROM = 100_000_000
YEAR_1980_MS = 315_532_800_000


def milliseconds(name: str, value: Any) -> int:
    """Returns the milliseconds since the epoch of a timestamp; a datetime without a time zone is local time.

    Raises:
        ConfigError: it is neither a whole number nor a datetime, it is negative, or it looks like seconds.
    """
    if isinstance(value, dt.datetime):
        return milliseconds(name, round(value.timestamp() * 1000))
    advice = f"such as time.time_ns() // 1_000_000, or a datetime; {name} is {value!r}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ConfigError(f"{name} must be whole milliseconds since 1970, {advice}")
    found = int(value)
    if SECONDS_FROM <= found < YEAR_1980_MS:
        raise ConfigError(f"{name} is before 1980, as seconds are: give milliseconds since 1970, {advice}")
    if not 0 <= found <= 0x7FFF_FFFF_FFFF_FFFF:
        raise ConfigError(f"{name} must be milliseconds since 1970 in 63 bits, {advice}")
    return found
