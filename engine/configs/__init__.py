"""Holds the table of topic and broker configs, reads config files, and computes the values in force.

Imported by: broker, broker_children, cli, cluster, engine.*, serve, supervised_child.
May import: protocol, security.
"""

from bowstring.engine.configs.broker_configs import (
    BrokerConfigs,
    ConfigSource,
    Origin,
    rendered,
    shown,
    validate_topic_configs,
)
from bowstring.engine.configs.config_key import ConfigError, ConfigKey, ConfigType
from bowstring.engine.configs.table import BROKER_CONFIGS, TOPIC_CONFIGS, broker_key
from bowstring.engine.configs.table_bowstring import REGISTRY_CONFIG

__all__ = [
    "BROKER_CONFIGS",
    "REGISTRY_CONFIG",
    "TOPIC_CONFIGS",
    "BrokerConfigs",
    "ConfigError",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "Origin",
    "broker_key",
    "rendered",
    "shown",
    "validate_topic_configs",
]
