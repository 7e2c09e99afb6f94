"""The config table: every topic and broker config that a Kafka 4.3 user may set, one row each.

Parsing, validation, DescribeConfigs and the reference page derive from it. To add a config, add its row to
the table_*.py file of its subject.
"""

from typing import Final

from bowstring.engine.configs.definition import ConfigError, ConfigKey, nearest
from bowstring.engine.configs.table_bowstring import BOWSTRING
from bowstring.engine.configs.table_cluster import CLUSTER
from bowstring.engine.configs.table_coordinators import COORDINATORS
from bowstring.engine.configs.table_logs import LOGS
from bowstring.engine.configs.table_remote import REMOTE
from bowstring.engine.configs.table_security import SECURITY
from bowstring.engine.configs.table_server import SERVER
from bowstring.engine.configs.table_topics import TOPICS

TOPIC_CONFIGS: Final[dict[str, ConfigKey]] = TOPICS
BROKER_CONFIGS: Final[dict[str, ConfigKey]] = {
    **SERVER,
    **LOGS,
    **CLUSTER,
    **COORDINATORS,
    **REMOTE,
    **SECURITY,
    **BOWSTRING,
}

# Keys of older Kafka that Kafka 4 no longer has, and what to do instead.
_REMOVED: Final = {
    "zookeeper.connect": "ZooKeeper is gone since Kafka 4.0; delete the line",
    "zookeeper.connection.timeout.ms": "ZooKeeper is gone since Kafka 4.0; delete the line",
    "zookeeper.session.timeout.ms": "ZooKeeper is gone since Kafka 4.0; delete the line",
    "broker.id.generation.enable": "set node.id instead",
    "inter.broker.protocol.version": "replaced by the metadata.version feature; delete the line",
    "log.message.format.version": "there is one message format since Kafka 4.0; delete the line",
    "log.message.timestamp.difference.max.ms": (
        "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms instead"
    ),
}


def broker_key(name: str) -> ConfigKey:
    """The row of a broker config; `listener.name.<listener>.<config>` has the row of `<config>`.

    Raises ConfigError that names the nearest known config.
    """
    key = BROKER_CONFIGS.get(name)
    if key is None and name.startswith("listener.name."):
        key = _listener_key(name)
    if key is not None:
        return key
    if name in _REMOVED:
        raise ConfigError(f'unknown config "{name}": {_REMOVED[name]}')
    close = nearest(name, BROKER_CONFIGS)
    raise ConfigError(f'unknown config "{name}"' + (f'; did you mean "{close}"?' if close else ""))


def _listener_key(name: str) -> ConfigKey | None:
    # listener.name.<listener>.<config>, or with a SASL mechanism between the two (KIP-103).
    parts = name.split(".")
    for start in (3, 4):
        key = BROKER_CONFIGS.get(".".join(parts[start:]))
        if key is not None:
            return key
    return None
