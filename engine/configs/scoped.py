"""Checks the configs of groups and of client metrics subscriptions, and finds their defaults."""

import re
from collections.abc import Mapping
from typing import Final

from bowstring.engine.configs.broker_configs import BrokerConfigs, ConfigSource, Origin
from bowstring.engine.configs.config_key import ConfigError
from bowstring.engine.configs.table import BROKER_CONFIGS
from bowstring.engine.configs.table_groups import CLIENT_METRICS, GROUPS
from bowstring.protocol.whole_numbers import LONG_MAX, whole_number

# Broker configs with these prefixes bound a group's config.
_LOWEST: Final = "min"
_HIGHEST: Final = "max"
_NOT_BELOW: Final = (
    ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "streams.heartbeat.interval.ms"),
)
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_ASSIGNOR: Final = "streams.assignor.name"
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?=.)(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{0,9})?S)?)?", re.IGNORECASE | re.ASCII
)
_PART: Final = re.compile(r"(\d+)(?:\.\d*)?([DHMS])", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"D": 86_400, "H": 3600, "M": 60, "S": 1}
# Nested groups take a level of recursion each.
_GROUPS_MAX: Final = 100
_MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
# Syntax that Java's patterns have and Python's do not.
_JAVA_ONLY: Final = re.compile(r"\\[pP]\{\w+\}|\\Q.*?(?:\\E|$)")
INTERVAL_MS: Final = range(100, 3_600_001)


def group_origins(name: str, configs: BrokerConfigs) -> list[Origin]:
    """Returns the sources of a group's default for `name`: a broker config, or the table's default alone."""
    if name == _ASSIGNOR:
        # the broker's is a list, which may name the assignor by its Java class
        origins = configs.origins("group.streams.assignors")
        return [origins[0]._replace(text=GROUPS[name].default or ""), *origins[1:]]
    broker_name = f"group.{name}"
    if broker_name in BROKER_CONFIGS:
        return configs.origins(broker_name)
    default = GROUPS[name].default
    assert default is not None
    return [Origin(name, default, ConfigSource.DEFAULT_CONFIG)]


def validate_group_configs(overrides: Mapping[str, str], configs: BrokerConfigs) -> None:
    """Refuses unknown group configs, invalid values, values outside the broker's bounds, and contradictions.

    Raises:
        ConfigError: The message names the config.
    """
    values: dict[str, int] = {}
    for name, text in overrides.items():
        if name not in GROUPS:
            raise ConfigError(f"Unknown group config name: {name}")
        if name == _ASSIGNOR and text.strip() != GROUPS[name].default:
            raise ConfigError(
                f"{name} '{text}' is not a registered task assignor. Registered assignors are: "
                f"[{GROUPS[name].default}]."
            )
        elif name == _DEAD_LETTERS and text.strip().startswith("__"):
            raise ConfigError(f"{name}: DLQ topic name must not start with '__'")
        GROUPS[name].parse(text)
    for name, key in GROUPS.items():
        text = overrides[name] if name in overrides else group_origins(name, configs)[0].text
        if name == "share.auto.offset.reset":
            _check_reset(text)
        value = key.parse(text)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        values[name] = value
        kind, _, subject = name.partition(".")
        for bound, beyond in ((_LOWEST, value.__lt__), (_HIGHEST, value.__gt__)):
            limit = f"group.{kind}.{bound}.{subject.removeprefix('num.')}"
            if limit in BROKER_CONFIGS and beyond(configs.value(limit)):
                how = "greater" if bound == _LOWEST else "less"
                raise ConfigError(f"{name} must be {how} than or equal to {limit}")
    for longer, shorter in _NOT_BELOW:
        if values[longer] <= values[shorter]:
            raise ConfigError(f"{longer} must be greater than {shorter}")


def _check_reset(text: str) -> None:
    duration = text.removeprefix(_BY_DURATION) if text.startswith(_BY_DURATION) else None
    if text not in ("earliest", "latest") and (duration is None or not _is_duration(duration)):
        raise ConfigError(
            f"Invalid value {text} for configuration share.auto.offset.reset: must be earliest, latest or "
            "by_duration:PnDTnHnMn.nS"
        )


def _is_duration(text: str) -> bool:
    """Whether Java reads a duration, whose seconds are a LONG."""
    if not _DURATION.fullmatch(text):
        return False
    parts = [(whole_number(digits, LONG_MAX), unit.upper()) for digits, unit in _PART.findall(text)]
    return None not in (number for number, _ in parts) and (
        sum((number or 0) * _SECONDS[unit] for number, unit in parts) <= LONG_MAX
    )


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """Refuses invalid values of a client metrics subscription. All names must be known.

    Raises:
        ConfigError: The message names the config.
    """
    for name, text in overrides.items():
        value = CLIENT_METRICS[name].parse(text)
        if isinstance(value, list) and "" in value:
            raise ConfigError(f"Invalid value {text} for configuration {name}: no item may be empty")
    for item in CLIENT_METRICS["match"].parse(overrides.get("match", "")):
        name, equals, pattern = item.partition("=")
        if not equals or name.strip() not in _MATCHED:
            raise ConfigError(f"Illegal client matching pattern: {item}")
        if pattern.count("(") > _GROUPS_MAX:
            raise ConfigError(f"Illegal client matching pattern: {item}: more than {_GROUPS_MAX} groups")
        try:
            re.compile(_JAVA_ONLY.sub(".", pattern.strip()))
        except (re.error, OverflowError) as error:  # malformed, a huge count
            raise ConfigError(f"Illegal client matching pattern: {item}: {error}") from None
