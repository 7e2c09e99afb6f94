"""Defines the settings of the audit of counts: clients count their records and report the counts."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bowstring.clients.errors import ConfigError

COUNTS_TOPIC = "audit-counts"
WINDOW_MS = 600_000
REPORT_INTERVAL_MS = 10_000
_NAMES = {
    "audit.tier": "tier",
    "audit.topic": "topic",
    "audit.window.ms": "window_ms",
    "audit.report.interval.ms": "report_interval_ms",
    "audit.bootstrap.servers": "counts_bootstrap_servers",
}


@dataclass(frozen=True, slots=True)
class Audit:
    """Makes a client count its records by topic and window of their timestamps, and report the counts.

    A producer counts records that brokers acknowledged (those of a transaction when it is committed), a
    consumer those that it returned. `bowstring audit` compares the counts of tiers and names topics and
    windows that are incomplete. The design is that of LinkedIn's Kafka audit.

    Args:
        tier: name of the cluster, or of the stage of a pipeline, that the client works on.
        topic: topic of the counts. Records of this topic, and of topics whose name begins with two
            underscores, are not counted.
        window_ms: milliseconds of a window; all tiers need the same.
        report_interval_ms: milliseconds between reports. A process that is killed loses the counts of that
            time at most.
        counts_bootstrap_servers: brokers that take the counts; None: those of the client.

    Raises:
        ConfigError: an argument is invalid.

    Examples:
        >>> producer = bowstring.Producer("localhost:9092", audit=bowstring.Audit("frankfurt"))
    """

    tier: str
    topic: str = COUNTS_TOPIC
    window_ms: int = WINDOW_MS
    report_interval_ms: int = REPORT_INTERVAL_MS
    counts_bootstrap_servers: str | None = None

    def __post_init__(self) -> None:
        for name in ("tier", "topic"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigError(f"audit: {name} is {getattr(self, name)!r}, it must be a name")
        for name in ("window_ms", "report_interval_ms"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"audit: {name} is {value!r}, it must be a number of milliseconds above 0")


def audit_of(given: Audit | Mapping[str, Any] | str | None) -> Audit | None:
    """Returns the settings in any of the forms that clients take: an Audit, the name of a tier, or a mapping
    of "audit.tier" and the like.

    Raises:
        ConfigError: the tier is missing, or a setting is unknown or invalid.
    """
    if given is None or isinstance(given, Audit):
        return given
    if isinstance(given, str):
        return Audit(given)
    unknown = [name for name in given if name not in _NAMES]
    if unknown:
        raise ConfigError(f"audit has no setting {unknown[0]!r}; it has {', '.join(_NAMES)}")
    if "audit.tier" not in given:
        raise ConfigError("audit.tier is missing: give the name of the cluster or stage that counts")
    arguments = {_NAMES[name]: value for name, value in given.items()}
    for name in ("window_ms", "report_interval_ms"):
        if isinstance(arguments.get(name), str):
            try:
                arguments[name] = int(arguments[name])
            except ValueError:
                raise ConfigError(f"audit: {name} is {arguments[name]!r}, it must be a number") from None
    return Audit(**arguments)


SETTINGS = tuple(_NAMES)
"""The names of the settings, as properties files have them."""
