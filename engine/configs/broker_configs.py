"""Computes the values in force: dynamic configs override static ones, which override defaults; topics inherit
from the broker.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bowstring.engine.configs.config_key import LIST, ConfigError, ConfigKey
from bowstring.engine.configs.synonyms import broker_synonyms, topic_synonyms
from bowstring.engine.configs.table import BROKER_CONFIGS, TOPIC_CONFIGS, broker_key
from bowstring.engine.configs.table_security import SECURITY

_CODECS: Final = {"producer": -1, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

_DYNAMIC_CURE: Final = (
    " (it is a dynamic config in the metadata log: delete it with the broker that ran last, or run "
    "bowstring migrate-dir --to bowstring)"
)


class ConfigSource(IntEnum):
    """Source of a value, numbered as in DescribeConfigs."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Origin(NamedTuple):
    """One possible source of a value, which may be a secret. In a list of origins the first is in force."""

    name: str
    text: str
    source: ConfigSource

    def __repr__(self) -> str:
        return f"Origin({self.name}, {self.source.name})"


_OF_LISTENERS: Final = frozenset({"max.connections", "max.connection.creation.rate", *SECURITY})
"""Configs in force for one listener, too, by its own name of them."""


class BrokerConfigs:
    """A broker's configs in layers, and the topic defaults derived from them.

    `static` holds the configuration file and the command line. `set_dynamic` replaces the two dynamic layers
    when the metadata log changes them.
    """

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, str] = dict(static or {})
        for name, text in self.static.items():
            broker_key(name).parse(text)
        self.dynamic_broker: dict[str, str] = {}
        self.dynamic_default: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._topic_texts: dict[str, str | None] = {}
        self._log_defaults: dict[str, int] | None = None

    def set_dynamic(self, broker: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Replaces the dynamic layers: this broker's own and the cluster's default."""
        self.dynamic_broker = dict(broker)
        self.dynamic_default = dict(default)
        self._values.clear()
        self._topic_texts.clear()
        self._log_defaults = None

    def origins(self, name: str) -> list[Origin]:
        """Returns every source that sets broker config `name` or a synonym, the one in force first."""
        names = broker_synonyms(name)
        found = [
            Origin(each, layer[each], source)
            for layer, source in (
                (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
                (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
                (self.static, ConfigSource.STATIC_BROKER_CONFIG),
            )
            for each in names
            if each in layer
        ]
        for each in names:
            key = BROKER_CONFIGS.get(each)
            if key is not None and key.default is not None:
                found.append(Origin(each, key.default, ConfigSource.DEFAULT_CONFIG))
        return found

    def text(self, name: str) -> str | None:
        """Returns the value in force of one config name as text, without its synonyms; None when it is not
        set.
        """
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return broker_key(name).default

    def value(self, name: str) -> Any:
        """Returns the typed value in force of one config name, without its synonyms; None when it is not
        set.
        """
        try:
            return self._values[name]
        except KeyError:
            text = self.text(name)
            value = None if text is None else broker_key(name).parse(text)
            self._values[name] = value
            return value

    # ------------------------------------------------------------ topics

    def topic_origins(self, name: str) -> list[Origin]:
        """Returns every broker config that gives topics a default for `name`, the one in force first."""
        synonyms = topic_synonyms(name)
        return self.origins(synonyms[0].name) if synonyms else []

    def topic_default(self, name: str) -> str | None:
        """Returns the default for topics that do not set `name`."""
        try:
            return self._topic_texts[name]
        except KeyError:
            text = self._inherited(name)
            self._topic_texts[name] = text
            return text

    def _inherited(self, name: str) -> str | None:
        origins = self.topic_origins(name)
        if not origins:
            return TOPIC_CONFIGS[name].default
        factor = next((each.factor for each in topic_synonyms(name) if each.name == origins[0].name), 1)
        if factor == 1:
            return origins[0].text
        value = int(origins[0].text)
        return "-1" if value < 0 else str(value * factor)

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Any:
        """Returns the typed value in force of a topic config, given the topic's own settings."""
        text = overrides.get(name)
        if text is None:
            text = self.topic_default(name)
        if text is None:
            return None
        key = TOPIC_CONFIGS[name]
        return key.parse(text) if key.type is LIST else _parsed(name, text)

    def log_config(self, overrides: Mapping[str, str]) -> dict[str, int]:
        """Returns the settings of a PartitionLog. Topics without settings of their own share one dict."""
        if overrides:
            return self._log_config(overrides)
        if self._log_defaults is None:
            self._log_defaults = self._log_config({})
        return self._log_defaults

    def _log_config(self, overrides: Mapping[str, str]) -> dict[str, int]:
        def value(name: str) -> Any:
            return self.topic_value(name, overrides)

        policies = value("cleanup.policy")
        internal_segment_bytes = value("internal.segment.bytes")
        segment_ms = value("segment.ms")
        if "compact" in policies:
            # The active segment is never compacted, so it must roll within max.compaction.lag.ms (KIP-354).
            segment_ms = min(segment_ms, value("max.compaction.lag.ms"))
        return {
            "segment_bytes": internal_segment_bytes or value("segment.bytes"),
            "segment_ms": segment_ms,
            "segment_jitter_ms": value("segment.jitter.ms"),
            "segment_index_bytes": value("segment.index.bytes"),
            "index_interval_bytes": value("index.interval.bytes"),
            "max_message_bytes": value("max.message.bytes"),
            "max_decompressed_message_bytes": value("max.decompressed.message.bytes"),
            "retention_ms": value("retention.ms"),
            "retention_bytes": value("retention.bytes"),
            "file_delete_delay_ms": value("file.delete.delay.ms"),
            "timestamp_before_max_ms": value("message.timestamp.before.max.ms"),
            "timestamp_after_max_ms": value("message.timestamp.after.max.ms"),
            "producer_id_expiration_ms": self.value("producer.id.expiration.ms"),
            "flush_messages": value("flush.messages"),
            "flush_ms": value("flush.ms"),
            "log_append_time": int(value("message.timestamp.type") == "LogAppendTime"),
            "compacted": int("compact" in policies),
            "delete_enabled": int("delete" in policies),
            "compression": _CODECS[value("compression.type")],
            "schemas": value("confluent.key.schema.validation")
            + 2 * value("confluent.value.schema.validation"),
        }

    # ------------------------------------------------------------ checks

    def without_effect(self) -> list[str]:
        """Names in the static layer that differ from their default and have no effect yet."""
        return sorted(
            name
            for name, text in self.static.items()
            if not (key := broker_key(name)).effect.lacking
            and not (key.applied and (name in BROKER_CONFIGS or key.name in _OF_LISTENERS))
            and text.strip() != (key.default or "")
        )

    def unenforced(self) -> list[str]:
        """Reasons to refuse the settings, of any layer, that request a missing protection."""
        found = []
        for layer, cure in (
            (self.static, ""),
            (self.dynamic_broker, _DYNAMIC_CURE),
            (self.dynamic_default, _DYNAMIC_CURE),
        ):
            reasons = (why_unenforced(name, text) for name, text in sorted(layer.items()))
            found += [reason + cure for reason in reasons if reason is not None]
        return found


@lru_cache(maxsize=1024)
def _parsed(name: str, text: str) -> Any:
    """Returns the value of a topic config that is no list; of coordinators' topics they are read for each
    write.
    """
    return TOPIC_CONFIGS[name].parse(text)


def why_unenforced(name: str, text: str) -> str | None:
    """Returns why a broker config that requests a missing protection is refused; None when it is accepted.

    Raises:
        ConfigError: The value is not valid.
    """
    try:
        key = broker_key(name)
    except ConfigError:
        return None  # Kafka's plug-ins define dynamic configs of their own
    return key.unenforced(name, text)


def validate_topic_configs(overrides: Mapping[str, str], configs: BrokerConfigs) -> None:
    """Refuses unknown topic configs, invalid values, and values that contradict each other.

    Raises ConfigError, whose message names the config.
    """
    for name, text in overrides.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        key.parse(text)
    shortest = configs.topic_value("min.compaction.lag.ms", overrides)
    longest = configs.topic_value("max.compaction.lag.ms", overrides)
    if shortest > longest:
        raise ConfigError(
            "conflict topic config setting min.compaction.lag.ms "
            f"({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if configs.topic_value("remote.storage.enable", overrides):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def shown(key: ConfigKey, text: str | None) -> str | None:
    """Returns a value, as it was written, as it may be shown to a client or in a log."""
    return None if key.is_sensitive else text


def rendered(key: ConfigKey, text: str | None) -> str | None:
    """Returns a value in force as it may be shown: parsed and written again, as Kafka does it."""
    return None if text is None or key.is_sensitive else key.rendered(text)
