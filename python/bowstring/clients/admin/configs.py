"""Implements Admin's methods for configs of topics and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.results import ConfigEntry, ConfigSynonym, ConfigValue, config_text
from bowstring.clients.errors import ConfigError, broker_error
from bowstring.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from bowstring.clients.records import Node

# ConfigResource.Type of Kafka's protocol.
RESOURCE_TYPES = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}

# DescribeConfigsResponse.ConfigSource.
CONFIG_SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}

# Bowstring's own topic configs. They are returned only if requested by name; Kafka ignores the request.
OWN_TOPIC_CONFIGS = (
    "bowstring.durability",
    "confluent.key.schema.validation",
    "confluent.key.subject.name.strategy",
    "confluent.value.schema.validation",
    "confluent.value.subject.name.strategy",
)

# IncrementalAlterConfigs operations (KIP-339).
SET, DELETE, APPEND, SUBTRACT = range(4)
DOCUMENTATION_VERSION = 3
SYNONYMS_VERSION = 1


class AdminConfigs(AdminCalls):
    """Mixed into Admin."""

    if TYPE_CHECKING:

        def _broker(self, broker_id: str) -> Node: ...

    def describe_configs(
        self,
        kind: str,
        name: str,
        *,
        documentation: bool = False,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
    ) -> dict[str, ConfigEntry]:
        """Returns the configs of a resource by name; `kind` is "topic", "broker", "group" or another.

        Args:
            kind: "topic", "broker", "broker-logger" (its log levels), "client-metrics" or "group".
            name: name of the topic or group, or id of the broker.
            documentation: also returns what each config is for.
            names: configs to return; None for all.
            synonyms: also returns the places that a value is looked for in, the first one in effect.

        Raises:
            ConfigError: the kind is unknown.
            BrokerError: the resource does not exist.
        """
        wanted = [None if names is None else list(names)]
        if kind == "topic" and names is None:
            wanted.append(list(OWN_TOPIC_CONFIGS))
        resources = [
            DescribeConfigsResource(resource_type=_type(kind), resource_name=name, configuration_keys=keys)
            for keys in wanted
        ]

        def request(version: int) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=resources,
                include_synonyms=synonyms and version >= SYNONYMS_VERSION,
                include_documentation=documentation and version >= DOCUMENTATION_VERSION,
            )

        response = self._call(self._config_node(kind, name), DescribeConfigsRequest, request)
        entries = {}
        for result in response.results:
            if result.error_code:
                raise broker_error(result.error_code, f"configs of {kind} {name!r}", result.error_message)
            for config in result.configs:
                entries[config.name] = ConfigEntry(
                    config.name,
                    config.value,
                    CONFIG_SOURCES.get(config.config_source, "UNKNOWN"),
                    config.read_only,
                    config.is_sensitive,
                    config.documentation,
                    tuple(
                        ConfigSynonym(each.name, each.value, CONFIG_SOURCES.get(each.source, "UNKNOWN"))
                        for each in config.synonyms
                    ),
                )
        return entries

    def topic_configs(self, topics: Iterable[str], name: str) -> dict[str, str | None]:
        """Returns the value of one config by topic. Topics that are gone are left out.

        Args:
            topics: names of topics.
            name: name of the config.
        """
        resources = [
            DescribeConfigsResource(
                resource_type=_type("topic"), resource_name=topic, configuration_keys=[name]
            )
            for topic in topics
        ]
        response = self._call(
            self._any_node, DescribeConfigsRequest, DescribeConfigsRequest(resources=resources)
        )
        return {
            result.resource_name: config.value
            for result in response.results
            if not result.error_code
            for config in result.configs
            if config.name == name
        }

    def alter_configs(
        self,
        kind: str,
        name: str,
        *,
        set: Mapping[str, ConfigValue] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, ConfigValue] | None = None,
        subtract: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Changes single configs of a resource and keeps the others (KIP-339).

        `append` and `subtract` change lists such as cleanup.policy. An empty broker `name` means all brokers.

        Args:
            kind: "topic", "broker", "broker-logger" (its log levels), "client-metrics" or "group".
            name: name of the topic or group, or id of the broker.
            set: new values by config.
            delete: configs that get their default again.
            append: elements to add to a list, by config; separate several with commas.
            subtract: elements to remove from a list, by config.
            validate_only: checks the request, but changes nothing.

        Raises:
            ConfigError: the kind is unknown.
            BrokerError: the broker refuses a name or value, and says which.
        """
        changes = [AlterableConfig(name=key, config_operation=DELETE, value=None) for key in delete]
        for operation, values in ((SET, set), (APPEND, append), (SUBTRACT, subtract)):
            for key, value in (values or {}).items():
                changes.append(
                    AlterableConfig(name=key, config_operation=operation, value=config_text(value))
                )
        resource = AlterConfigsResource(resource_type=_type(kind), resource_name=name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        response = self._to_controller(
            IncrementalAlterConfigsRequest, request, pick=self._config_node(kind, name)
        )
        for result in response.responses:
            if result.error_code:
                raise broker_error(result.error_code, f"configs of {kind} {name!r}", result.error_message)

    def _config_node(self, kind: str, name: str) -> Callable[[], Node | None]:
        """Returns the node for the request: a broker's own configs need the broker itself."""
        if kind.startswith("broker") and name:
            return lambda: self._broker(name)
        return self._any_node


def _type(kind: str) -> int:
    number = RESOURCE_TYPES.get(kind)
    if number is None:
        raise ConfigError(f"there are configs of {', '.join(RESOURCE_TYPES)}, not of {kind!r}")
    return number
