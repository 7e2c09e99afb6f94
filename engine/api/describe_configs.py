"""Handles DescribeConfigs: returns values in force, their sources, and documentation of configs."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from bowstring._native.protocol.message_steps import PAUSE
from bowstring.engine.api import broker_loggers
from bowstring.engine.api.config_resources import denial
from bowstring.engine.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfigs,
    ConfigError,
    ConfigKey,
    ConfigSource,
    ConfigType,
    Origin,
    broker_key,
    rendered,
    shown,
)
from bowstring.engine.configs.config_key import LOW, READ_ONLY, STORED
from bowstring.engine.configs.scoped import group_origins
from bowstring.engine.configs.synonyms import topic_synonyms
from bowstring.engine.configs.table_groups import CLIENT_METRICS, GROUPS
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from bowstring.engine.metadata.topic_changes import check_topic_name
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.acls import AclOperation
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.local_read_configs import INSTANCE_CONFIG, SOCKET_CONFIG, TOKEN_CONFIG
from bowstring.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from bowstring.protocol.whole_numbers import whole_number

if TYPE_CHECKING:
    from bowstring.engine.local.socket import LocalSocket
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer

_LOCAL: Final = frozenset({SOCKET_CONFIG, INSTANCE_CONFIG, TOKEN_CONFIG})
_BROKER_LOGGER: Final = 8
_BROKER_LOGGER_SOURCE: Final = 6
_SCOPED_SOURCES: Final = (
    ConfigSource.TOPIC_CONFIG,
    ConfigSource.GROUP_CONFIG,
    ConfigSource.CLIENT_METRICS_CONFIG,
)


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    node_id: int,
    metadata: "Metadata",
    authorizer: "Authorizer",
    local: "LocalSocket | None",
) -> DescribeConfigsResponse:
    """Describes topics, this broker (by its id), the cluster's defaults (the empty name), loggers, groups and
    client metrics subscriptions.

    Behaviour: without keys, or with an empty list, returns every config of the resource. The cluster's
    defaults include only configs that are set there. A topic config that Kafka does not have is returned only
    if the topic sets it or the request names it, because tools that copy configs to another cluster would
    fail on it. Values of passwords are null. A value in force is shown as Kafka writes what it parsed; the
    broker configs it may come from, and the cluster's defaults, as they were written. Resources whose configs
    the client may not describe come last. Whoever asks this broker for TOKEN_CONFIG and nothing but the local
    socket needs no permission, and gets a token for it.

    Versions: 1 adds source and synonyms (KIP-226); 3 types and documentation (KIP-569).
    """
    body: DescribeConfigsRequest = request.body

    def denied(resource: DescribeConfigsResource) -> Error | None:
        if local is not None and local.tokens is not None and _asks_for_token(resource, node_id):
            return None
        key = (resource.resource_type, resource.resource_name)
        return denial(authorizer, request, AclOperation.DESCRIBE_CONFIGS, *key)

    def admission(resource: DescribeConfigsResource) -> dict[str, str]:
        if local is None or not _asks_for_token(resource, node_id):
            return {}
        return local.admission(request.principal, request.peer, request.listener.name)

    found = _results(configs, node_id, metadata, body, denied, admission=admission)
    return DescribeConfigsResponse(results=streamed(found))


def _asks_for_token(resource: DescribeConfigsResource, node_id: int) -> bool:
    if resource.resource_type != BROKER_RESOURCE or resource.resource_name != str(node_id):
        return False
    keys = resource.configuration_keys
    if not isinstance(keys, list) or len(keys) > len(_LOCAL):  # larger ones are decoded later
        return False
    return TOKEN_CONFIG in keys and _LOCAL.issuperset(keys)


def _results(
    configs: "BrokerConfigs",
    node_id: int,
    metadata: "Metadata",
    body: DescribeConfigsRequest,
    denied: Callable[[DescribeConfigsResource], Error | None],
    *,
    admission: Callable[[DescribeConfigsResource], dict[str, str]],
) -> Iterator[DescribeConfigsResult]:
    refused: list[DescribeConfigsResult] = []
    for resource in body.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        if error := denied(resource):
            result.error_code, result.error_message = error.code, error.message
            refused.append(result)
            yield PAUSE
            continue
        wanted = yield from _wanted(resource)
        try:
            result.configs = _describe(
                body, resource, wanted, configs=configs, node_id=node_id, metadata=metadata
            )
        except KafkaError as failed:
            result.error_code = failed.code
            result.error_message = failed.detail or failed.error.message
        else:
            result.configs += [_admission_entry(*each) for each in admission(resource).items()]
        yield result
    yield from refused


def _admission_entry(name: str, value: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=True,
        config_source=ConfigSource.STATIC_BROKER_CONFIG.value,
        config_type=ConfigType.STRING.value,
    )


def _wanted(resource: DescribeConfigsResource) -> Generator[Any, None, set[str] | None]:
    """Returns the requested configs; None for all."""
    wanted = set()
    for count, key in enumerate(resource.configuration_keys or ()):
        wanted.add(key)
        if count % 256 == 255:
            yield PAUSE
    return wanted or None


def _describe(
    body: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    wanted: set[str] | None,
    *,
    configs: "BrokerConfigs",
    node_id: int,
    metadata: "Metadata",
) -> list[DescribeConfigsResourceResult]:
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC_RESOURCE:
        entries = _topic_entries(configs, metadata, name, wanted or ())
    elif kind == BROKER_RESOURCE:
        entries = _broker_entries(configs, node_id, name)
    elif kind == GROUP_RESOURCE:
        entries = _group_entries(configs, metadata, name)
    elif kind == CLIENT_METRICS_RESOURCE:
        entries = _client_metrics_entries(metadata, name)
    elif kind == _BROKER_LOGGER:
        return _loggers(node_id, resource, wanted)
    else:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unsupported resource type: {kind}")
    names, describe = entries
    found = [describe(each) for each in names if wanted is None or each in wanted]
    for entry in found:
        if not body.include_synonyms:
            entry.synonyms = []
        if not body.include_documentation:
            entry.documentation = None
    return found


Entries = tuple[Iterable[str], Callable[[str], DescribeConfigsResourceResult]]


def _topic_entries(
    configs: "BrokerConfigs", metadata: "Metadata", topic: str, asked: Collection[str]
) -> Entries:
    check_topic_name(topic)
    if topic not in metadata.image.topics:
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    overrides = metadata.image.topic_configs(topic)

    def describe(name: str) -> DescribeConfigsResourceResult:
        synonyms = topic_synonyms(name)
        origins = _from(configs.topic_origins(name), synonyms[0].name) if synonyms else []
        if name in overrides:
            origins = [Origin(name, overrides[name], ConfigSource.TOPIC_CONFIG), *origins]
            value: str | None = overrides[name]
        else:
            value = configs.topic_default(name)
        key = TOPIC_CONFIGS[name]
        return _entry(key, name, rendered(key, value), origins, read_only=False)

    names = (
        name
        for name, key in TOPIC_CONFIGS.items()
        if name in overrides or not (key.internal or (key.is_own and name not in asked))
    )
    return names, describe


def _group_entries(configs: "BrokerConfigs", metadata: "Metadata", group: str) -> Entries:
    if not group:
        raise KafkaError(Errors.INVALID_REQUEST, "Group name must not be empty")
    overrides = metadata.image.resource_configs(GROUP_RESOURCE, group)

    def describe(name: str) -> DescribeConfigsResourceResult:
        origins = group_origins(name, configs)
        if name in overrides:
            origins = [Origin(name, overrides[name], ConfigSource.GROUP_CONFIG), *origins]
        return _entry(GROUPS[name], name, rendered(GROUPS[name], origins[0].text), origins, read_only=False)

    names = (name for name, key in GROUPS.items() if name in overrides or not key.internal)
    return names, describe


def _client_metrics_entries(metadata: "Metadata", subscription: str) -> Entries:
    if not subscription:
        raise KafkaError(Errors.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    overrides = metadata.image.resource_configs(CLIENT_METRICS_RESOURCE, subscription)

    def describe(name: str) -> DescribeConfigsResourceResult:
        key = CLIENT_METRICS[name]
        if name not in overrides:
            return _entry(key, name, rendered(key, key.default), [], read_only=False)
        origin = Origin(name, overrides[name], ConfigSource.CLIENT_METRICS_CONFIG)
        return _entry(key, name, rendered(key, origin.text), [origin], read_only=False)

    return CLIENT_METRICS, describe


def _broker_entries(configs: "BrokerConfigs", node_id: int, name: str) -> Entries:
    if not name:
        return configs.dynamic_default, lambda each: _default_entry(configs, each)
    _check_broker_id(node_id, name)
    layers = (configs.static, configs.dynamic_broker, configs.dynamic_default)
    others = dict.fromkeys(each for layer in layers for each in layer if each not in BROKER_CONFIGS)
    public = (
        each
        for each, key in BROKER_CONFIGS.items()
        if not key.internal or any(each in layer for layer in layers)
    )
    return (*public, *others), lambda each: _broker_entry(configs, each)


def _check_broker_id(node_id: int, name: str) -> None:
    number = whole_number(name)
    if number is None:
        raise KafkaError(Errors.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != node_id:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )


def _broker_entry(configs: BrokerConfigs, name: str) -> DescribeConfigsResourceResult:
    origins = _from(configs.origins(name), name)
    key = _key(name)
    text = configs.text(name)
    value = rendered(key, text) if name in BROKER_CONFIGS else shown(key, text)
    return _entry(key, name, value, origins, read_only=key.update_mode == READ_ONLY)


def _from(origins: list[Origin], name: str) -> list[Origin]:
    """Returns the synonyms; as in Kafka, the list starts with the config's own name."""
    while origins and origins[0].name != name:
        origins = origins[1:]
    return origins


def _default_entry(configs: BrokerConfigs, name: str) -> DescribeConfigsResourceResult:
    value = configs.dynamic_default[name]
    origins = [Origin(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]
    key = _key(name)
    return _entry(key, name, shown(key, value), origins, read_only=key.update_mode == READ_ONLY)


def _key(name: str) -> ConfigKey:
    """Returns the row of a broker config. One that only a plug-in of Kafka has is shown without its value,
    which may be a secret.
    """
    try:
        return broker_key(name)
    except ConfigError:
        return ConfigKey(name, ConfigType.UNKNOWN, None, "", LOW, READ_ONLY, STORED, "")


def _entry(
    key: ConfigKey, name: str, value: str | None, origins: list[Origin], *, read_only: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=(origins[0].source if origins else ConfigSource.DEFAULT_CONFIG).value,
        is_sensitive=key.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=each.name,
                value=(rendered if each.source in _SCOPED_SOURCES else shown)(key, each.text),
                source=each.source.value,
            )
            for each in origins
        ],
        config_type=key.type.value,
        documentation=key.doc or None,
    )


def _loggers(
    node_id: int, resource: DescribeConfigsResource, wanted: set[str] | None
) -> list[DescribeConfigsResourceResult]:
    if not resource.resource_name:
        raise KafkaError(Errors.INVALID_REQUEST, "Broker id must not be empty")
    _check_broker_id(node_id, resource.resource_name)
    return [
        DescribeConfigsResourceResult(
            name=name, value=level, config_source=_BROKER_LOGGER_SOURCE, documentation=None
        )
        for name, level in broker_loggers.levels().items()
        if wanted is None or name in wanted
    ]
