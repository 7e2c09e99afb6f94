"""Lists every topic and broker config of Kafka 4.4, one row each.

Parsing, validation, DescribeConfigs and the reference page derive from it. To add a config, add its row to
the table_*.py file of its subject.
"""

from typing import Final

from bowstring.engine.configs.config_key import OWN_PREFIX, ConfigError, ConfigKey, is_typo, nearest
from bowstring.engine.configs.synonyms import topic_synonyms
from bowstring.engine.configs.table_bowstring import BOWSTRING
from bowstring.engine.configs.table_cluster import CLUSTER
from bowstring.engine.configs.table_coordinators import COORDINATORS
from bowstring.engine.configs.table_logs import LOGS
from bowstring.engine.configs.table_remote import REMOTE
from bowstring.engine.configs.table_security import SECURITY
from bowstring.engine.configs.table_server import SERVER
from bowstring.engine.configs.table_topics import TOPIC_DEFAULTS, TOPICS

TOPIC_CONFIGS: Final[dict[str, ConfigKey]] = TOPICS
BROKER_CONFIGS: Final[dict[str, ConfigKey]] = {
    **SERVER,
    **LOGS,
    **TOPIC_DEFAULTS,
    **CLUSTER,
    **COORDINATORS,
    **REMOTE,
    **SECURITY,
    **BOWSTRING,
}

# Keys of older Kafka that Kafka 4 no longer has, and what to do instead.
_REMOVED: Final = {
    "advertised.host.name": "set advertised.listeners instead",
    "advertised.port": "set advertised.listeners instead",
    "host.name": "set listeners instead",
    "port": "set listeners instead",
    "quota.consumer.default": "Kafka removed it; set the quota with bowstring quotas set --user-defaults",
    "quota.producer.default": "Kafka removed it; set the quota with bowstring quotas set --user-defaults",
    "zookeeper.connect": "Kafka 4.0 removed ZooKeeper; delete the line",
    "zookeeper.connection.timeout.ms": "Kafka 4.0 removed ZooKeeper; delete the line",
    "zookeeper.session.timeout.ms": "Kafka 4.0 removed ZooKeeper; delete the line",
    "broker.id.generation.enable": "set node.id instead",
    "inter.broker.protocol.version": "replaced by the metadata.version feature; delete the line",
    "log.message.format.version": "Kafka 4.0 has only one message format; delete the line",
    "log.message.timestamp.difference.max.ms": (
        "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms instead"
    ),
}

_NOT_FOR_PLUGINS: Final = ("authorizer.", OWN_PREFIX, "listener.name.", "sasl.", "security.", "ssl.")


def broker_key(name: str) -> ConfigKey:
    """Returns the row of a broker config; `listener.name.<listener>.<config>` uses the row of `<config>`.

    Raises ConfigError that names the nearest known config.
    """
    key = BROKER_CONFIGS.get(name)
    if key is None and name.startswith("listener.name."):
        key = _listener_key(name)
    if key is not None:
        return key
    if name in _REMOVED:
        raise ConfigError(f'unknown config "{name}": {_REMOVED[name]}')
    close = nearest_config(name)
    raise ConfigError(f'unknown config "{name}"' + (f'; did you mean "{close}"?' if close else ""))


def nearest_config(name: str) -> str | None:
    """Returns the broker config that `name` probably meant; for a topic config, the broker's default for
    it.
    """
    if synonyms := topic_synonyms(name):
        return synonyms[0].name
    return nearest(name, BROKER_CONFIGS)


def may_be_a_plugins(name: str) -> bool:
    """Returns whether an unknown name may belong to a plugin or vendor.

    True unless the name is a config of older Kafka, a security config, one of Bowstring's own prefix, or
    similar to a known one.
    """
    return not (
        name in _REMOVED
        or name.startswith(_NOT_FOR_PLUGINS)
        or any(is_typo(name, known) for known in BROKER_CONFIGS)
    )


def _listener_key(name: str) -> ConfigKey | None:
    # listener.name.<listener>.<config>, or with a SASL mechanism between the two (KIP-103).
    parts = name.split(".")
    for start in (3, 4):
        key = BROKER_CONFIGS.get(".".join(parts[start:]))
        if key is not None:
            return key
    return None
