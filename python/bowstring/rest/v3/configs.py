"""Configs of topics, of brokers, and of all brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bowstring.clients.admin.results import ConfigEntry
from bowstring.clients.errors import BrokerError
from bowstring.rest.answer import Answering
from bowstring.rest.call import Call
from bowstring.rest.client_failure import bad_request, http_error, not_found
from bowstring.rest.links import resource_name
from bowstring.rest.operation import Operations

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

operations = Operations()

_CLUSTER = "/v3/clusters/{cluster_id}"
TOPICS_MAX = 1_000
"""Topics whose configs one request lists at most, page by page."""


class UpdateConfigData(Struct):
    """A new value of a config."""

    value: str | None = None


class AlterConfigData(Struct):
    """A change of a config."""

    name: str
    value: str | None = None
    operation: str | None = None


class AlterConfigsData(Struct):
    """Changes of configs."""

    data: list[AlterConfigData]
    validate_only: bool | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """What has configs.

    Attributes:
        kind: for Admin: "topic" or "broker".
        id: name of the topic, number of the broker; empty for all brokers.
        path: segments below the cluster.
        names: pairs of the resource name.
        members: of each resource.
        resource: kind of each resource.
        part: what a config is called in resource names.
    """

    kind: str
    id: str
    path: tuple[str, ...]
    names: tuple[str, ...]
    members: dict[str, Any]
    resource: str
    part: str = "config"


def _topic(name: str) -> Owner:
    return Owner(
        "topic", name, ("topics", name, "configs"), ("topic", name), {"topic_name": name}, "KafkaTopicConfig"
    )


def _broker(number: int) -> Owner:
    id = str(number)
    return Owner(
        "broker", id, ("brokers", id, "configs"), ("broker", id), {"broker_id": number}, "KafkaBrokerConfig"
    )


ALL_BROKERS = Owner(
    "broker", "", ("broker-configs",), (), {"config_type": "BROKER"}, "KafkaClusterConfig", "broker-config"
)


def _owner(call: Call) -> Owner:
    """Returns what the path names."""
    if "topic_name" in call.path:
        return _topic(call.path["topic_name"])
    return _broker(call.number("broker_id")) if "broker_id" in call.path else ALL_BROKERS


def _described(admin: Admin, owner: Owner) -> list[ConfigEntry]:
    if owner.kind == "broker" and owner.id:
        check_broker(admin, int(owner.id))
    found = admin.describe_configs(owner.kind, owner.id, synonyms=True)
    return [found[name] for name in sorted(found)]


def check_broker(admin: Admin, number: int) -> None:
    """Refuses a broker that the cluster does not have.

    Raises:
        HttpError: 404.
    """
    if all(node.id != number for node in admin.describe_cluster().brokers):
        raise not_found(f"Broker {number} cannot be found.")


async def list_configs(call: Call) -> Answering:
    """Lists the configs of one owner."""
    owner = _owner(call)
    found = await call.admin(_described, owner)
    link = call.links.to(call.path["cluster_id"], *owner.path)
    return call.collection(f"{owner.resource}List", link, found, lambda each: _config(call, owner, each))


async def get_config(call: Call) -> Answering:
    """Shows a config."""
    owner, name = _owner(call), call.path["name"]
    for each in await call.admin(_described, owner):
        if each.name == name:
            return call.json(_config(call, owner, each))
    raise _missing(owner, name)


async def update_config(call: Call) -> Answering:
    """Gives a config a value."""
    wanted = await call.body(UpdateConfigData)
    if wanted.value is None:
        raise bad_request("value must be a string; DELETE gives a config its default again")
    return await _alter(call, {call.path["name"]: wanted.value}, (), False)


async def reset_config(call: Call) -> Answering:
    """Gives a config its default again."""
    return await _alter(call, {}, (call.path["name"],), False)


async def alter_configs(call: Call) -> Answering:
    """Changes configs together."""
    wanted = await call.body(AlterConfigsData)
    return await _alter(call, *_changes(wanted.data), bool(wanted.validate_only))


def _changes(wanted: list[AlterConfigData]) -> tuple[dict[str, str], list[str]]:
    """Returns the configs that get a value, and those that get their default again."""
    set_to: dict[str, str] = {}
    delete: list[str] = []
    for each in wanted:
        if each.operation == "DELETE":
            delete.append(each.name)
        elif each.operation in (None, "SET"):
            if each.value is None:
                raise bad_request(f"{each.name} is to be set and has no value")
            set_to[each.name] = each.value
        else:
            raise bad_request(f"operation of {each.name} is {each.operation!r}; it must be SET or DELETE")
    return set_to, delete


async def _alter(call: Call, set_to: dict[str, str], delete: Iterable[str], validate_only: bool) -> Answering:
    owner = _owner(call)

    def alter(admin: Admin) -> None:
        if owner is not ALL_BROKERS:  # which lists only configs that are set
            known = {each.name for each in _described(admin, owner)}
            for name in (*set_to, *delete):
                if name not in known:
                    raise _missing(owner, name)
        admin.alter_configs(owner.kind, owner.id, set=set_to, delete=delete, validate_only=validate_only)

    await call.admin(alter)
    return call.nothing()


def _missing(owner: Owner, name: str) -> Exception:
    return not_found(f"Config {name} cannot be found for {owner.kind} {owner.id}.".replace(" .", "."))


class AlterTopicData(Struct):
    """Changes of the configs of one topic."""

    topic_name: str
    configs: list[AlterConfigData]


class AlterTopicsData(Struct):
    """Changes of the configs of topics."""

    data: list[AlterTopicData]
    validate_only: bool | None = None


@operations.add(
    "POST",
    f"{_CLUSTER}/topics/-/configs:alter",
    "updateKafkaTopicsConfigBatch",
    "Changes configs of several topics; answers 207 with the topics that were refused, if any.",
    body="AlterTopicsConfigBatchRequestData",
    status=204,
    also={207: "AlterTopicsFailures"},
)
async def alter_topics_configs(call: Call) -> Answering:
    """Changes configs of several topics; one refusal does not keep the others."""
    wanted = await call.body(AlterTopicsData)
    if len(wanted.data) > TOPICS_MAX:
        raise bad_request(f"a request changes the configs of at most {TOPICS_MAX} topics")
    changes = [(_topic(each.topic_name), *_changes(each.configs)) for each in wanted.data]
    validate_only = bool(wanted.validate_only)

    def alter(admin: Admin) -> list[dict[str, Any]]:
        failures = []
        for owner, set_to, delete in changes:
            try:
                admin.alter_configs("topic", owner.id, set=set_to, delete=delete, validate_only=validate_only)
            except BrokerError as error:
                found = http_error(error)
                failures.append({"topic_name": owner.id, "error_code": found.code, "message": found.message})
        return failures

    failures = await call.admin(alter)
    return call.json({"failures": failures}, 207) if failures else call.nothing()


@operations.add(
    "GET",
    f"{_CLUSTER}/topics/-/configs",
    "listKafkaAllTopicConfigs",
    "Lists the configs of all topics.",
    answer="TopicConfigDataList",
)
async def list_topics_configs(call: Call) -> Answering:
    """Lists the configs of all topics, by topic and name."""

    def listed(admin: Admin) -> list[tuple[Owner, ConfigEntry]]:
        names = sorted(admin.topics(internal=True))
        if len(names) > TOPICS_MAX:
            raise bad_request(
                f"the cluster has {len(names)} topics; list the configs of one topic after the other"
            )
        return [(_topic(name), each) for name in names for each in _described(admin, _topic(name))]

    found = await call.admin(listed)
    link = call.links.to(call.path["cluster_id"], "topics", "-", "configs")
    return call.collection("KafkaTopicConfigList", link, found, lambda row: _config(call, *row))


@operations.add(
    "GET",
    f"{_CLUSTER}/brokers/-/configs",
    "listKafkaAllBrokerConfigs",
    "Lists the configs of every broker.",
    answer="BrokerConfigDataList",
)
async def list_brokers_configs(call: Call) -> Answering:
    """Lists the configs of every broker."""

    def listed(admin: Admin) -> list[tuple[Owner, ConfigEntry]]:
        owners = [_broker(node.id) for node in admin.describe_cluster().brokers]
        return [(owner, each) for owner in owners for each in _described(admin, owner)]

    found = await call.admin(listed)
    link = call.links.to(call.path["cluster_id"], "brokers", "-", "configs")
    return call.collection("KafkaBrokerConfigList", link, found, lambda row: _config(call, *row))


def _config(call: Call, owner: Owner, each: ConfigEntry) -> dict[str, Any]:
    cluster_id = call.path["cluster_id"]
    return {
        "kind": owner.resource,
        "metadata": {
            "self": call.links.to(cluster_id, *owner.path, each.name),
            "resource_name": resource_name("kafka", cluster_id, *owner.names, owner.part, each.name),
        },
        "cluster_id": cluster_id,
        **owner.members,
        "name": each.name,
        "value": each.value,
        "is_default": each.is_default,
        "is_read_only": each.read_only,
        "is_sensitive": each.sensitive,
        "source": each.source,
        "synonyms": [
            {"name": other.name, "value": other.value, "source": other.source} for other in each.synonyms
        ],
    }


def _add(path: str, whose: str, names: tuple[str, ...], data: str) -> None:
    """Adds the operations of one kind of owner. `names`: of list, alter, get, update and reset."""
    of_list, of_alter, of_get, of_update, of_reset = names
    add, one = operations.add, f"{path}/{{name}}"
    add("GET", path, of_list, f"Lists the configs of {whose}.", answer=f"{data}List")(list_configs)
    add(
        "POST",
        f"{path}:alter",
        of_alter,
        f"Changes configs of {whose} together.",
        body="AlterConfigBatchRequestData",
        status=204,
    )(alter_configs)
    add("GET", one, of_get, f"Shows a config of {whose}.", answer=data)(get_config)
    add(
        "PUT",
        one,
        of_update,
        f"Gives a config of {whose} a value.",
        body="UpdateConfigRequestData",
        status=204,
    )(update_config)
    add("DELETE", one, of_reset, f"Gives a config of {whose} its default again.", status=204)(reset_config)


_add(
    f"{_CLUSTER}/topics/{{topic_name}}/configs",
    "a topic",
    (
        *("listKafkaTopicConfigs", "updateKafkaTopicConfigBatch", "getKafkaTopicConfig"),
        *("updateKafkaTopicConfig", "deleteKafkaTopicConfig"),
    ),
    "TopicConfigData",
)
_add(
    f"{_CLUSTER}/brokers/{{broker_id}}/configs",
    "a broker",
    (
        *("listKafkaBrokerConfigs", "updateKafkaBrokerConfigBatch", "getKafkaBrokerConfig"),
        *("updateKafkaBrokerConfig", "deleteKafkaBrokerConfig"),
    ),
    "BrokerConfigData",
)
_add(
    f"{_CLUSTER}/broker-configs",
    "all brokers",
    (
        *("listKafkaClusterConfigs", "updateKafkaClusterConfigs", "getKafkaClusterConfig"),
        *("updateKafkaClusterConfig", "deleteKafkaClusterConfig"),
    ),
    "ClusterConfigData",
)
