"""Topic and broker configs: the table, the files they are read from, and the values in force."""

from bowstring.engine.configs.definition import ConfigError, ConfigKey, ConfigType, nearest
from bowstring.engine.configs.effective import (
    BrokerConfigs,
    ConfigSource,
    Origin,
    shown,
    validate_topic_configs,
)
from bowstring.engine.configs.table import BROKER_CONFIGS, TOPIC_CONFIGS, broker_key

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfigs",
    "ConfigError",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "Origin",
    "broker_key",
    "nearest",
    "shown",
    "validate_topic_configs",
]
