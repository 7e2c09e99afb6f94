"""Defines a config: name, type, default, valid values, how it may change, and its documentation."""

import math
import re
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple

from bowstring.protocol.whole_numbers import whole_number


class ConfigType(IntEnum):
    """Types of values, numbered as in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


UNKNOWN: Final = ConfigType.UNKNOWN
BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

# Importance levels of Kafka's documentation.
HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"

# How a config may change while the broker runs (KIP-226).
READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"
TOPIC: Final = "topic"
GROUP: Final = "group"
SUBSCRIPTION: Final = "client metrics subscription"


class Effect(NamedTuple):
    """What a config does in this broker.

    Attributes:
        applied: The broker acts on it.
        lacking: Set when the config requests a protection that the broker does not enforce: what is missing
            and what to do instead. Such a config is refused unless its value switches the protection off.
        off: Values that switch it off, beside its default and the empty one.
    """

    applied: bool
    lacking: str = ""
    off: tuple[str, ...] = ()


APPLIED: Final = Effect(True)
STORED: Final = Effect(False)  # accepted, stored and reported, without effect


def protects(lacking: str, *off: str) -> Effect:
    """Returns the effect of a config that requests a protection which this broker does not have yet."""
    return Effect(False, lacking, off)


OWN_PREFIX: Final = "bowstring."
NOT_KAFKAS: Final = (OWN_PREFIX, "confluent.")
"""Prefixes of configs that Apache Kafka does not have: Bowstring's own, and of Confluent's brokers."""

_BITS: Final = {SHORT: 15, INT: 31, LONG: 63}
_SPACES: Final = bytes(range(33)).decode()  # what String.trim removes
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?)", re.ASCII)
DISTINCT: Final = "distinct"  # valid values: a list without empty or equal items
_HOST_COUNTS: Final = "host counts"  # valid values: pairs of a host and a number
_REPLICAS: Final = "replicas"  # valid values: pairs of a partition and a broker


class ConfigError(ValueError):
    """An unknown config name or an invalid value; the message says which and why."""


class BrokerConfig(NamedTuple):
    """A broker config that sets the default of a topic config.

    Attributes:
        name: The broker config's name.
        factor: Converts its value to the topic config's unit.
        differences: Fields of its row that differ from the topic config's; None when it has its own row.
    """

    name: str
    factor: int = 1
    differences: dict[str, Any] | None = None


def broker_config(name: str, *, factor: int = 1, **differences: Any) -> BrokerConfig:
    """A broker config whose row derives from the row of the topic config."""
    return BrokerConfig(name, factor, differences)


def own_config(name: str) -> BrokerConfig:
    """A broker config with its own row and purpose, which also sets the default of a topic config."""
    return BrokerConfig(name)


class ConfigKey(NamedTuple):
    """One row of the config table."""

    name: str
    type: ConfigType
    default: str | None
    valid: str  # "low..high", either end open; "-1 or low..high"; "a|b|c"; "distinct"; "replicas"; "" is any
    importance: str
    update_mode: str
    effect: Effect
    doc: str
    internal: bool = False
    set_by: tuple[BrokerConfig, ...] = ()  # of a topic config, in order of precedence

    def broker_configs(self) -> Iterator["ConfigKey"]:
        """Rows of the broker configs that derive from this topic config."""
        for each in self.set_by:
            if each.differences is not None:
                common = {
                    "name": each.name,
                    "importance": MEDIUM,
                    "update_mode": CLUSTER_WIDE,
                    "doc": f"Default {self.name} of topics.",
                    "set_by": (),
                }
                yield self._replace(**(common | each.differences))

    @property
    def is_own(self) -> bool:
        """Whether Apache Kafka does not have the config."""
        return self.name.startswith(NOT_KAFKAS)

    @property
    def is_sensitive(self) -> bool:
        """Whether values are shown to no one."""
        return self.type in (PASSWORD, UNKNOWN)

    @property
    def applied(self) -> bool:
        """Whether the broker acts on the config."""
        return self.effect.applied

    def unenforced(self, name: str, text: str) -> str | None:
        """Returns why the value `text` is refused because it requests a missing protection; None when it is
        accepted.

        Args:
            name: The config's name as given, with the prefix of a listener if it has one.
        """
        lacking, off = self.effect.lacking, self.effect.off
        if not lacking or not text.strip():
            return None
        harmless = [each for each in (self.default, *off) if each is not None]
        value = self.parse(text)
        if any(value == self.parse(each) for each in harmless):
            return None
        shown = "[hidden]" if self.is_sensitive else text.strip()
        instead = f" or set it to {harmless[0]}" if harmless and harmless[0] else ""
        return f"{name}={shown} is not enforced: {lacking}. Remove the setting{instead} to run without it"

    def parse(self, text: str) -> Any:
        """Returns the typed value of `text`: bool, int, float, str, or list[str].

        Raises ConfigError when the text is not of the config's type or not a valid value.
        """
        text = text.strip(_SPACES)
        kind = self.type
        if kind in _BITS:
            value: Any = self._integer(text, _BITS[kind])
        elif kind is BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self.invalid(text, "Expected value to be either true or false")
            value = text.lower() == "true"
        elif kind is DOUBLE:
            if not _DOUBLE.fullmatch(text):
                raise self.invalid(text, "Not a number of type DOUBLE")
            value = float(text.rstrip("dDfF"))
        elif kind is LIST:
            value = [item.strip() for item in text.split(",")] if text else []
            if self.valid == DISTINCT and (len(set(value)) < len(value) or "" in value):
                raise self.invalid(text, "Items must be different and not empty")
            # A directory that is named twice is refused later, not left out.
            if self.valid != _REPLICAS and self.name != "log.dirs":
                value = list(dict.fromkeys(value))
        else:
            value = text
        self._check(value, text)
        return value

    def rendered(self, text: str) -> str:
        """Returns the value of `text` as Kafka writes it (ConfigDef.convertToString): `compact,delete` for
        `" compact , delete "`. Returns `text` itself where it is not valid.
        """
        try:
            value = self.parse(text)
        except ConfigError:
            return text
        if self.type is BOOLEAN:
            return "true" if value else "false"
        if self.type is DOUBLE:
            return _java_double(value)
        return ",".join(value) if self.type is LIST else str(value)

    def _integer(self, text: str, bits: int) -> int:
        digits = text[1:] if text[:1] in "+-" else text
        is_negative = text.startswith("-")
        value = whole_number(digits, 1 << bits)
        if value is not None and (is_negative or value < 1 << bits):
            return -value if is_negative else value
        raise self.invalid(text, f"Not a number of type {self.type.name}")

    def _check(self, value: Any, text: str) -> None:
        valid = self.valid
        if not valid or valid == DISTINCT:
            return
        if valid == _REPLICAS:
            if value != ["*"] and not all(_is_replica(item) for item in value):
                raise self.invalid(text, "Must be the literal '*' or a list of partition:broker pairs")
        elif valid == _HOST_COUNTS:
            if not all(_is_host_count(pair.strip()) for pair in value.split(",") if value):
                raise self.invalid(text, "Must be host:count pairs, such as 10.0.0.1:5,10.0.0.2:7")
        elif ".." in valid:
            self._check_range(value, text, valid)
        else:
            any_case = valid.startswith("any case: ")
            choices = valid.removeprefix("any case: ").split("|")
            for item in value if isinstance(value, list) else [value]:
                if (item.upper() if any_case else item) not in choices:
                    raise self.invalid(text, f"String must be one of: {', '.join(choices)}")

    def _check_range(self, value: float, text: str, valid: str) -> None:
        extra, _, bounds = valid.rpartition(" or ")
        if extra and value == int(extra):
            return
        low, _, high = bounds.partition("..")
        if value < float(low):
            raise self.invalid(text, f"Value must be at least {low}")
        if high and value > float(high):
            raise self.invalid(text, f"Value must be no more than {high}")

    def invalid(self, text: str, reason: str) -> ConfigError:
        """Returns the error for a value that is refused. It does not show passwords."""
        shown = "[hidden]" if self.is_sensitive else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {reason}")


def _java_double(value: float) -> str:
    """Returns what Double.toString writes: plain from 0.001 to below 10,000,000, with an exponent beyond."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    from decimal import Decimal  # not at start, for which no config is shown

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)).normalize():f}"
        return plain if "." in plain else f"{plain}.0"
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"


def _is_host_count(text: str) -> bool:
    host, _, count = text.rpartition(":")
    return bool(host) and whole_number(count) is not None


def _is_replica(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and None not in (whole_number(partition), whole_number(broker))


def topic_config(
    name: str,
    kind: ConfigType,
    default: str | None,
    valid: str,
    doc: str,
    *set_by: BrokerConfig,
    effect: Effect = APPLIED,
    importance: str = MEDIUM,
    internal: bool = False,
) -> ConfigKey:
    """Returns the row of a topic config; `set_by` are the broker configs that set its default."""
    return ConfigKey(name, kind, default, valid, importance, TOPIC, effect, doc, internal, set_by)


def rows(table: Iterable[tuple[Any, ...]]) -> dict[str, ConfigKey]:
    """Returns the rows of a table, by name."""
    return {row[0]: ConfigKey(*row) for row in table}


def is_typo(name: str, known: str) -> bool:
    """Returns whether `name` differs from the known one by at most two letters added, removed, changed or
    swapped.
    """
    most = 2
    if abs(len(name) - len(known)) > most:
        return False
    far = most + 1
    before: dict[int, int] = {}
    last = {column: column for column in range(min(len(known), most) + 1)}
    for row in range(1, len(name) + 1):
        this = {}
        for column in range(max(0, row - most), min(len(known), row + most) + 1):
            if column == 0:
                this[0] = row
                continue
            changed = name[row - 1] != known[column - 1]
            cost = min(
                last.get(column, far) + 1,
                this.get(column - 1, far) + 1,
                last.get(column - 1, far) + changed,
            )
            if row > 1 and column > 1 and name[row - 2 : row] == known[column - 2 : column][::-1]:
                cost = min(cost, before.get(column - 2, far) + 1)
            this[column] = cost
        before, last = last, this
    return last.get(len(known), far) <= most


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name most similar to `name`, or None when none is close."""
    import difflib

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None
