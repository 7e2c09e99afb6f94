"""Exposes log levels as a config resource (KIP-412). They are held in memory until the broker stops."""

import logging
from collections.abc import Sequence
from typing import Final

from bowstring.engine import event_log
from bowstring.engine.metadata.config_changes import DELETE, SET, Change
from bowstring.protocol.errors import Errors, KafkaError

# Kafka's levels and their Python equivalents; Python has no TRACE and no FATAL.
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in _LEVELS.items() if name != "TRACE"}
# Kafka's tools name the logger above all others "root".
_LOGGERS: Final = {"root": "bowstring", "bowstring": "bowstring", "asyncio": "asyncio"} | {
    (name := f"bowstring.{package}"): name for package in event_log.PACKAGES
}


def levels() -> dict[str, str]:
    """Returns the level of each logger of the broker."""
    return {
        name: _NAMES.get(logging.getLogger(target).getEffectiveLevel(), "INFO")
        for name, target in _LOGGERS.items()
    }


def alter(changes: Sequence[Change], *, validate_only: bool) -> None:
    """Sets levels or resets them to the default; all of them or none.

    Raises:
        KafkaError: INVALID_CONFIG for an unknown logger or level, INVALID_REQUEST for another operation.
    """
    for change in changes:
        if change.name not in _LOGGERS:
            raise KafkaError(Errors.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.operation not in (SET, DELETE):
            raise KafkaError(Errors.INVALID_REQUEST, "The level of a logger can only be set or deleted.")
        if change.operation == SET and change.value not in _LEVELS:
            raise KafkaError(
                Errors.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value}: the levels are "
                f"{', '.join(_LEVELS)}",
            )
    if not validate_only:
        for change in changes:
            logger = logging.getLogger(_LOGGERS[change.name])
            by_default = logging.NOTSET if logger.parent is event_log.LOGGER else logging.INFO
            logger.setLevel(_LEVELS[change.value or ""] if change.operation == SET else by_default)
