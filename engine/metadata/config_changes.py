"""Checks requested config changes against an image and returns the ConfigRecords that make them."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bowstring.engine.configs import (
    TOPIC_CONFIGS,
    BrokerConfigs,
    ConfigError,
    ConfigKey,
    ConfigType,
    broker_key,
    validate_topic_configs,
)
from bowstring.engine.configs.config_key import PER_BROKER, READ_ONLY
from bowstring.engine.configs.scoped import INTERVAL_MS, validate_client_metrics, validate_group_configs
from bowstring.engine.configs.table_groups import CLIENT_METRICS, GROUPS
from bowstring.engine.configs.table_security import PER_LISTENER
from bowstring.engine.metadata.eligible_leaders import forget
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from bowstring.engine.metadata.topic_changes import check_topic_name
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import ELIGIBLE_LEADER_REPLICAS
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.schema import MetadataRecord
from bowstring.protocol.whole_numbers import whole_number

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

_OPERATION_NAMES: Final = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}
_MAX_VALUE: Final = 0x7FFF
_MIN_IN_SYNC: Final = "min.insync.replicas"


class Change(NamedTuple):
    """One operation of IncrementalAlterConfigs on one config (KIP-339). Its value may be a secret."""

    name: str
    operation: int
    value: str | None

    def __repr__(self) -> str:
        return f"Change({self.name}, {self.operation})"


def alter_incrementally(
    image: ClusterImage,
    configs: BrokerConfigs,
    resource: tuple[int, str],
    changes: Sequence[Change],
) -> list[MetadataRecord]:
    """Returns the records that apply all `changes` of one resource.

    Raises:
        KafkaError: With the error that IncrementalAlterConfigs answers.
    """
    _check_duplicates([change.name for change in changes])
    nulls = [change.name for change in changes if change.operation != DELETE and change.value is None]
    if nulls:
        raise KafkaError(Errors.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    _check_resource(image, resource)
    result = dict(image.resource_configs(*resource))
    wanted: dict[str, str | None] = {}
    for change in changes:
        value = applied(resource[0], configs, result.get(change.name), change)
        wanted[change.name] = value
        if value is None:
            result.pop(change.name, None)
        else:
            result[change.name] = value
    _check_result(configs, resource, result, wanted)
    return _records(image, resource, wanted)


def replace(
    image: ClusterImage,
    configs: BrokerConfigs,
    resource: tuple[int, str],
    wanted: Sequence[tuple[str, str | None]],
) -> list[MetadataRecord]:
    """Returns the records that leave a resource with exactly the configs `wanted`, as AlterConfigs does.

    Raises:
        KafkaError: With the error that AlterConfigs answers.
    """
    _check_duplicates([name for name, _ in wanted])
    nulls = [name for name, value in wanted if value is None]
    if nulls:
        raise KafkaError(Errors.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    _check_resource(image, resource)
    result = {name: value for name, value in wanted if value is not None}
    _check_result(configs, resource, result, result)
    gone = {name: None for name in image.resource_configs(*resource) if name not in result}
    return _records(image, resource, {**result, **gone})


def _check_duplicates(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise KafkaError(Errors.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_resource(image: ClusterImage, resource: tuple[int, str]) -> None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        if not name:
            raise KafkaError(Errors.INVALID_REQUEST, "Topics have no defaults of their own; name a topic.")
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif kind == BROKER_RESOURCE:
        number = whole_number(name)
        if name and number is None:
            raise KafkaError(Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        if name and number not in image.brokers:
            raise KafkaError(Errors.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")
    elif kind in (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE):
        if not name:
            what = "Groups" if kind == GROUP_RESOURCE else "Client metrics subscriptions"
            raise KafkaError(Errors.INVALID_REQUEST, f"{what} have no defaults of their own; name one.")
    else:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unknown resource type {kind}")


def _key(kind: int, name: str) -> ConfigKey:
    if kind == TOPIC_RESOURCE:
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise KafkaError(Errors.INVALID_CONFIG, f"Unknown topic config name: {name}")
        return key
    if kind in (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE):
        key = GROUPS.get(name) if kind == GROUP_RESOURCE else CLIENT_METRICS.get(name)
        if key is None:
            raise KafkaError(Errors.INVALID_CONFIG, f"Unknown config name: {name}")
        return key
    try:
        return broker_key(name)
    except ConfigError as error:
        raise KafkaError(Errors.INVALID_REQUEST, str(error)) from None


def applied(kind: int, configs: BrokerConfigs, current: str | None, change: Change) -> str | None:
    """Returns the value of a config after a change; None: it has none of its own then.

    Raises:
        KafkaError: The config does not have the operation.
    """
    if change.operation == SET:
        return change.value
    if change.operation == DELETE:
        return None
    if change.operation not in _OPERATION_NAMES:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unknown operations type {change.operation}")
    key = _key(kind, change.name)
    if key.type is not ConfigType.LIST or kind == CLIENT_METRICS_RESOURCE:  # as in Kafka
        raise KafkaError(
            Errors.INVALID_CONFIG,
            f"Can't {_OPERATION_NAMES[change.operation]} to key {change.name} because its type is not LIST.",
        )
    if current is None:
        # APPEND starts from the value in force, not from an empty list.
        inherited = configs.topic_default if kind == TOPIC_RESOURCE else configs.text
        current = inherited(change.name)
    items = [item for item in (current or "").split(",") if item]
    for item in (change.value or "").split(","):
        if change.operation == APPEND and item not in items:
            items.append(item)
        elif change.operation == SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check_result(
    configs: BrokerConfigs,
    resource: tuple[int, str],
    result: Mapping[str, str],
    changed: Mapping[str, str | None],
) -> None:
    for name, value in changed.items():
        if value is not None and len(value) > _MAX_VALUE:
            raise KafkaError(
                Errors.INVALID_CONFIG, f"The value of {name} is longer than {_MAX_VALUE} characters."
            )
    kind, name = resource
    if kind == BROKER_RESOURCE:
        _check_broker_result(result, changed, per_broker=bool(name))
        return
    if kind == CLIENT_METRICS_RESOURCE:
        _check_client_metrics(result)
    try:
        if kind == TOPIC_RESOURCE:
            validate_topic_configs(result, configs)
        elif kind == GROUP_RESOURCE:
            validate_group_configs(result, configs)
    except ConfigError as error:
        raise KafkaError(Errors.INVALID_CONFIG, str(error)) from None


def _check_client_metrics(result: Mapping[str, str]) -> None:
    unknown = sorted(set(result) - set(CLIENT_METRICS))
    if unknown:
        raise KafkaError(Errors.INVALID_REQUEST, f"Unknown client metrics configuration: {unknown[0]}")
    try:
        validate_client_metrics(result)
    except ConfigError as error:
        raise KafkaError(Errors.INVALID_CONFIG, str(error)) from None
    interval = result.get("interval.ms")
    if interval is not None and int(interval) not in INTERVAL_MS:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between {INTERVAL_MS.start} and "
            f"{INTERVAL_MS.stop - 1} (1 hour)",
        )


def _check_broker_result(
    result: Mapping[str, str], changed: Mapping[str, str | None], *, per_broker: bool
) -> None:
    # Deleted values are not checked.
    kept = (name for name, value in changed.items() if value is not None)
    keys = {name: _key(BROKER_RESOURCE, name) for name in (*result, *kept)}
    fixed = sorted(name for name, key in keys.items() if key.update_mode == READ_ONLY)
    if fixed:
        raise KafkaError(
            Errors.INVALID_REQUEST, f"Cannot update these configs dynamically: {', '.join(fixed)}"
        )
    unprefixed = sorted(PER_LISTENER.intersection(keys))
    if unprefixed:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            + ", ".join(unprefixed),
        )
    own = sorted(name for name, key in keys.items() if key.update_mode == PER_BROKER)
    if own and not per_broker:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            + ", ".join(own),
        )
    try:
        for name, value in result.items():
            keys[name].parse(value)
    except ConfigError as error:
        raise KafkaError(Errors.INVALID_REQUEST, str(error)) from None
    reasons = [
        reason
        for name, value in sorted(changed.items())
        if value is not None and (reason := keys[name].unenforced(name, value)) is not None
    ]
    if reasons:
        raise KafkaError(Errors.INVALID_CONFIG, "; ".join(reasons))


def _records(
    image: ClusterImage, resource: tuple[int, str], wanted: Mapping[str, str | None]
) -> list[MetadataRecord]:
    current = image.resource_configs(*resource)
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
    if image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0 and current.get(_MIN_IN_SYNC) != wanted.get(
        _MIN_IN_SYNC, current.get(_MIN_IN_SYNC)
    ):
        _check_min_in_sync(resource, wanted[_MIN_IN_SYNC])
        records += forget(image, resource[1])
    return records


def _check_min_in_sync(resource: tuple[int, str], value: str | None) -> None:
    """Refuses changes after which brokers would differ about eligible leaders (KIP-966)."""
    kind, name = resource
    if kind == BROKER_RESOURCE and name:
        raise KafkaError(
            Errors.INVALID_CONFIG, f"Broker-level {_MIN_IN_SYNC} cannot be altered while ELR is enabled."
        )
    if kind == BROKER_RESOURCE and value is None:
        raise KafkaError(
            Errors.INVALID_CONFIG, f"Cluster-level {_MIN_IN_SYNC} cannot be removed while ELR is enabled."
        )
