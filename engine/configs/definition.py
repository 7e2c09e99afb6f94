"""What a config is: its name, type, default, valid values, how it may change, and what it is for."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple


class ConfigType(IntEnum):
    """Types of values; the numbers are those of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

# Importance, as Kafka's documentation ranks its configs.
HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"

# How a config may change while the broker runs (KIP-226).
READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"
TOPIC: Final = "topic"

# Whether the broker acts on a config, or accepts, stores and reports it without any effect.
APPLIED: Final = True
STORED: Final = False

_BITS: Final = {SHORT: 15, INT: 31, LONG: 63}


class ConfigError(ValueError):
    """A config name that is not known, or a value that is not valid; the message says which and why."""


class ConfigKey(NamedTuple):
    """One row of the config table."""

    name: str
    type: ConfigType
    default: str | None
    valid: str  # "low..high", either end open; "-1 or low..high"; "a|b|c"; "replicas"; "" takes anything
    importance: str
    update_mode: str
    applied: bool
    doc: str
    internal: bool = False

    def parse(self, text: str) -> Any:
        """The typed value of `text`: bool, int, float, str, or list[str].

        Raises ConfigError when the text is not of the config's type or not among its valid values.
        """
        text = text.strip()
        kind = self.type
        if kind in _BITS:
            value: Any = self._integer(text, _BITS[kind])
        elif kind is BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self._invalid(text, "Expected value to be either true or false")
            value = text.lower() == "true"
        elif kind is DOUBLE:
            try:
                value = float(text)
            except ValueError:
                raise self._invalid(text, "Not a number of type DOUBLE") from None
        elif kind is LIST:
            value = [item.strip() for item in text.split(",")] if text else []
        else:
            value = text
        self._check(value, text)
        return value

    def _integer(self, text: str, bits: int) -> int:
        digits = text[1:] if text[:1] in "+-" else text
        if not (digits.isascii() and digits.isdigit()):
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        value = int(text)
        if not -(1 << bits) <= value < 1 << bits:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return value

    def _check(self, value: Any, text: str) -> None:
        valid = self.valid
        if not valid:
            return
        if valid == "replicas":
            if value != ["*"] and not all(_is_replica(item) for item in value):
                raise self._invalid(text, "Must be the literal '*' or a list of partition:broker pairs")
        elif ".." in valid:
            self._check_range(value, text, valid)
        else:
            any_case = valid.startswith("any case: ")
            choices = valid.removeprefix("any case: ").split("|")
            for item in value if isinstance(value, list) else [value]:
                if (item.upper() if any_case else item) not in choices:
                    raise self._invalid(text, f"String must be one of: {', '.join(choices)}")

    def _check_range(self, value: float, text: str, valid: str) -> None:
        extra, _, bounds = valid.rpartition(" or ")
        if extra and value == int(extra):
            return
        low, _, high = bounds.partition("..")
        if value < float(low):
            raise self._invalid(text, f"Value must be at least {low}")
        if high and value > float(high):
            raise self._invalid(text, f"Value must be no more than {high}")

    def _invalid(self, text: str, reason: str) -> ConfigError:
        shown = "[hidden]" if self.type is PASSWORD else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {reason}")


def _is_replica(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and partition.isdigit() and broker.isdigit()


def rows(table: Iterable[tuple[Any, ...]]) -> dict[str, ConfigKey]:
    """The rows of a table, by name."""
    return {row[0]: ConfigKey(*row) for row in table}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when nothing comes near."""
    import difflib

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
