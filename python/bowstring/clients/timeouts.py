"""Checks arguments of polls and waits, which other clients have in other places and units."""

from __future__ import annotations

import math

from bowstring.clients.errors import ConfigError


def seconds(timeout: float | None) -> float:
    """Returns the seconds to wait; None or a negative number means no limit, as in confluent-kafka.

    Raises:
        ConfigError: it is not a number.
    """
    if timeout is None:
        return math.inf
    if not isinstance(timeout, int | float) or math.isnan(timeout):
        raise ConfigError(f"timeout is {timeout!r}, it must be a number of seconds, such as timeout=1.0")
    return timeout if timeout >= 0 else math.inf


def bounded(timeout: float | None) -> float | None:
    """Returns the same with None for no limit, as threads' waits expect.

    Raises:
        ConfigError: it is not a number.
    """
    left = seconds(timeout)
    return None if left == math.inf else left


def most_records(max_records: int | None, default: int) -> int:
    """Returns how many records a call may return.

    Raises:
        ConfigError: it is not a number of records.
    """
    if max_records is None:
        return default
    if not isinstance(max_records, int) or isinstance(max_records, bool) or max_records < 1:
        raise ConfigError(
            f"max_records is {max_records!r}, it must be a whole number of at least 1; give the time to "
            "wait as timeout=, in seconds"
        )
    return max_records
