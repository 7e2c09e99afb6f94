"""Refuses unknown options of the Spark source and sink, and names the nearest known one.

Spark's own Kafka source accepts every name, so that a misspelt option silently has no effect. The sink
accepts options of the source and vice versa, because a table has one set of options for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bowstring.clients.config.config_table import nearest
from bowstring.clients.errors import ConfigError

# OptionNames.java has the same list for the columnar engine; a test compares them.
OURS = (
    "assign",
    "audit.bootstrap.servers",
    "audit.report.interval.ms",
    "audit.tier",
    "audit.topic",
    "audit.window.ms",
    "columns",
    "delivery",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "engine",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "fused",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "key.autoRegister",
    "key.format",
    "key.kind",
    "key.message",
    "key.normalize",
    "key.references",
    "key.registry",
    "key.registry.caFile",
    "key.registry.certFile",
    "key.registry.keyFile",
    "key.registry.password",
    "key.registry.token",
    "key.registry.user",
    "key.schema",
    "key.strategy",
    "key.subject",
    "key.useLatest",
    "key.wire",
    "local",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "mode",
    "pushDownAggregate",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "topic",
    "value.autoRegister",
    "value.format",
    "value.framing",
    "value.kind",
    "value.message",
    "value.mode",
    "value.normalize",
    "value.references",
    "value.registry",
    "value.registry.caFile",
    "value.registry.certFile",
    "value.registry.keyFile",
    "value.registry.password",
    "value.registry.token",
    "value.registry.user",
    "value.schema",
    "value.schemas",
    "value.strategy",
    "value.subject",
    "value.useLatest",
    "value.wire",
)
# Options that Spark's readers, writers and catalogs add; names with a leading underscore are also Spark's.
SPARKS = frozenset(
    {
        "path",
        "paths",
        "checkpointlocation",
        "queryname",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "serialization.format",
        "bowstring.write.direct",
    }
)
KAFKA = "kafka."
# A property that only tables of a catalog have, beside properties of any other origin.
CATALOG_PROPERTY = "provider"
# Prefix with which catalogs repeat a table's OPTIONS.
TABLE_OPTION = "option."

_LOWER = {name.lower(): name for name in OURS}


def check_names(given: Iterable[str]) -> None:
    """Checks the names of a reader's or writer's options, or of a table's properties.

    Raises:
        ConfigError: a name is unknown; the message has the nearest known one.
    """
    names = sorted(given)
    if is_of_catalog(names):
        names = [name[len(TABLE_OPTION) :] for name in names if name.lower().startswith(TABLE_OPTION)]
    for name in names:
        if not _is_known(name.lower()):
            raise ConfigError(f"option {name} is not known: {_hint(name.lower())}")


def is_of_catalog(names: Iterable[str]) -> bool:
    """Returns whether these are the properties of a table in a catalog."""
    return any(name.lower() == CATALOG_PROPERTY for name in names)


def table_options(given: Mapping[str, str]) -> dict[str, str]:
    """Returns a table's OPTIONS from its properties."""
    return {
        name[len(TABLE_OPTION) :]: text
        for name, text in given.items()
        if name.lower().startswith(TABLE_OPTION)
    }


def _is_known(name: str) -> bool:
    return name in _LOWER or name.startswith((KAFKA, "_")) or name in SPARKS


def _hint(name: str) -> str:
    from bowstring.spark.kafka_configs import is_known_setting

    setting = name.replace("_", ".").removeprefix(KAFKA)
    if is_known_setting(setting):
        return f"did you mean {KAFKA}{setting}?"
    near = nearest(name, _LOWER)
    if near is not None:
        return f"did you mean {_LOWER[near]}?"
    return f"there are {', '.join(OURS)}, and kafka.* for the settings of Kafka's clients"
