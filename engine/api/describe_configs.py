"""DescribeConfigs: values in force, where they come from, and what the configs are for."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from bowstring.engine.api import broker_loggers
from bowstring.engine.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfigs,
    ConfigKey,
    ConfigSource,
    ConfigType,
    Origin,
    broker_key,
    shown,
)
from bowstring.engine.configs.definition import READ_ONLY
from bowstring.engine.configs.synonyms import TOPIC_SYNONYMS
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from bowstring.engine.metadata.topic_changes import check_topic_name
from bowstring.engine.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request

_BROKER_LOGGER: Final = 8
_BROKER_LOGGER_SOURCE: Final = 6


async def handle(broker: "Broker", request: "Request") -> DescribeConfigsResponse:
    """Describes topics, this broker (by its id), the cluster's defaults (the empty name) and loggers.

    Behaviour: without keys, or with an empty list of them, every config of the resource; the defaults
    resource shows only what is set there. Values of passwords are null.

    Versions: 1 adds source and synonyms (KIP-226); 3 types and documentation (KIP-569).
    """
    body: DescribeConfigsRequest = request.body
    results = []
    for resource in body.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            result.configs = _describe(broker, body, resource)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.detail or error.error.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(
    broker: "Broker", body: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC_RESOURCE:
        entries = _topic_entries(broker, name)
    elif kind == BROKER_RESOURCE:
        entries = _broker_entries(broker, name)
    elif kind == _BROKER_LOGGER:
        return _loggers(broker, resource)
    else:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unsupported resource type: {kind}")
    names, describe = entries
    wanted = set(resource.configuration_keys or ()) or None
    found = [describe(each) for each in names if wanted is None or each in wanted]
    for entry in found:
        if not body.include_synonyms:
            entry.synonyms = []
        if not body.include_documentation:
            entry.documentation = None
    return found


Entries = tuple[Iterable[str], Callable[[str], DescribeConfigsResourceResult]]


def _topic_entries(broker: "Broker", topic: str) -> Entries:
    check_topic_name(topic)
    if topic not in broker.metadata.image.topics:
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    overrides = broker.metadata.image.topic_configs(topic)
    configs = broker.configs

    def describe(name: str) -> DescribeConfigsResourceResult:
        origins = (
            _from(configs.topic_origins(name), TOPIC_SYNONYMS[name][0][0]) if name in TOPIC_SYNONYMS else []
        )
        if name in overrides:
            origins = [Origin(name, overrides[name], ConfigSource.TOPIC_CONFIG), *origins]
            value: str | None = overrides[name]
        else:
            value = configs.topic_default(name)
        return _entry(TOPIC_CONFIGS[name], name, value, origins, read_only=False)

    names = (name for name, key in TOPIC_CONFIGS.items() if not key.internal or name in overrides)
    return names, describe


def _broker_entries(broker: "Broker", name: str) -> Entries:
    if not name:
        return broker.configs.dynamic_default, lambda each: _default_entry(broker.configs, each)
    _check_broker_id(broker, name)
    configs = broker.configs
    prefixed = (each for each in configs.static if each not in BROKER_CONFIGS)
    layers = (configs.static, configs.dynamic_broker, configs.dynamic_default)
    public = (
        each
        for each, key in BROKER_CONFIGS.items()
        if not key.internal or any(each in layer for layer in layers)
    )
    return (*public, *prefixed), lambda each: _broker_entry(configs, each)


def _check_broker_id(broker: "Broker", name: str) -> None:
    if not name.isdigit():
        raise KafkaError(Errors.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.node_id:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
        )


def _broker_entry(configs: BrokerConfigs, name: str) -> DescribeConfigsResourceResult:
    origins = _from(configs.origins(name), name)
    key = broker_key(name)
    return _entry(key, name, configs.text(name), origins, read_only=key.update_mode == READ_ONLY)


def _from(origins: list[Origin], name: str) -> list[Origin]:
    """What is said of synonyms begins with the config's own name, as in Kafka."""
    while origins and origins[0].name != name:
        origins = origins[1:]
    return origins


def _default_entry(configs: BrokerConfigs, name: str) -> DescribeConfigsResourceResult:
    value = configs.dynamic_default[name]
    origins = [Origin(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]
    return _entry(broker_key(name), name, value, origins, read_only=False)


def _entry(
    key: ConfigKey, name: str, value: str | None, origins: list[Origin], *, read_only: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=shown(key, value),
        read_only=read_only,
        config_source=(origins[0].source if origins else ConfigSource.DEFAULT_CONFIG).value,
        is_sensitive=key.type is ConfigType.PASSWORD,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=shown(key, each.text), source=each.source.value)
            for each in origins
        ],
        config_type=key.type.value,
        documentation=key.doc,
    )


def _loggers(broker: "Broker", resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    if not resource.resource_name:
        raise KafkaError(Errors.INVALID_REQUEST, "Broker id must not be empty")
    _check_broker_id(broker, resource.resource_name)
    wanted = resource.configuration_keys or None
    return [
        DescribeConfigsResourceResult(
            name=name, value=level, config_source=_BROKER_LOGGER_SOURCE, documentation=None
        )
        for name, level in broker_loggers.levels().items()
        if wanted is None or name in wanted
    ]
