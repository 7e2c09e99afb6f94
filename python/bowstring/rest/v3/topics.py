"""Topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bowstring.clients.admin.results import NewTopic
from bowstring.clients.records import TopicInfo
from bowstring.rest.answer import Answering
from bowstring.rest.call import INT32_MAX, Call
from bowstring.rest.client_failure import bad_request
from bowstring.rest.links import resource_name
from bowstring.rest.operation import Operations
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

operations = Operations()

INT16_MAX = (1 << 15) - 1
PARTITIONS_MAX = 200_000


class ConfigEntryData(Struct):
    """A config of a topic to create."""

    name: str
    value: str | None = None


class CreateTopicData(Struct):
    """A topic to create."""

    topic_name: str
    partitions_count: int | None = None
    replication_factor: int | None = None
    replicas_assignments: dict[int, list[int]] | None = None
    configs: list[ConfigEntryData] | None = None
    validate_only: bool | None = None


class PartitionsCountData(Struct):
    """A new number of partitions."""

    partitions_count: int


@operations.add(
    "GET",
    "/v3/clusters/{cluster_id}/topics",
    "listKafkaTopics",
    "Lists the topics.",
    answer="TopicDataList",
)
async def list_topics(call: Call) -> Answering:
    """Lists all topics that the caller may describe, internal ones too, by name."""

    def listed(admin: Admin) -> list[TopicInfo]:
        return [info for _, info in sorted(admin.topics(internal=True).items())]

    found = await call.admin(listed)
    link = call.links.to(call.path["cluster_id"], "topics")
    return call.collection("KafkaTopicList", link, found, lambda each: topic_data(call, each))


@operations.add(
    "POST",
    "/v3/clusters/{cluster_id}/topics",
    "createKafkaTopic",
    "Creates a topic; with validate_only, answers 200 and creates nothing.",
    body="CreateTopicRequestData",
    answer="TopicData",
    status=201,
    also={200: "TopicData"},
)
async def create_topic(call: Call) -> Answering:
    """Creates a topic."""
    wanted = await call.body(CreateTopicData)
    topic = _new_topic(wanted)
    validate_only = bool(wanted.validate_only)

    def create(admin: Admin) -> TopicInfo | None:
        admin.create_topics([topic], validate_only=validate_only)
        if validate_only:
            return None
        try:
            return admin.describe_topic(topic.name)
        except HttpError:
            return None

    info = await call.admin(create)
    answer = topic_data(call, info or TopicInfo(topic.name, b"", False, {}))
    if info is None:
        partitions = len(topic.assignments) or max(0, topic.partitions)
        answer["partitions_count"] = partitions
        answer["replication_factor"] = max(0, topic.replication_factor)
    location = (b"location", answer["metadata"]["self"].encode())
    return call.json(answer, 200 if validate_only else 201, (location,))


def _new_topic(wanted: CreateTopicData) -> NewTopic:
    if not wanted.topic_name:
        raise HttpError(422, 42206, "Payload error. topic_name must not be empty.")
    count, factor = wanted.partitions_count, wanted.replication_factor
    assignments = wanted.replicas_assignments or {}
    if count is not None and not 1 <= count <= PARTITIONS_MAX:
        raise HttpError(400, 40002, f"partitions_count is {count}; it must be 1 to {PARTITIONS_MAX}")
    if factor is not None and not 1 <= factor <= INT16_MAX:
        raise HttpError(400, 40002, f"replication_factor is {factor}; it must be 1 to {INT16_MAX}")
    for number, brokers in assignments.items():
        if not 0 <= number < PARTITIONS_MAX or not all(0 <= each <= INT32_MAX for each in brokers):
            raise bad_request("replicas_assignments has a number that no partition or broker has")
    configs = {each.name: each.value or "" for each in wanted.configs or ()}
    return NewTopic(wanted.topic_name, count or -1, factor or -1, configs, assignments)


@operations.add(
    "GET",
    "/v3/clusters/{cluster_id}/topics/{topic_name}",
    "getKafkaTopic",
    "Shows a topic.",
    answer="TopicData",
)
async def get_topic(call: Call) -> Answering:
    """Shows a topic."""
    return call.json(topic_data(call, await described(call)))


@operations.add(
    "PATCH",
    "/v3/clusters/{cluster_id}/topics/{topic_name}",
    "updatePartitionCountKafkaTopic",
    "Raises the number of partitions of a topic.",
    body="UpdatePartitionCountRequestData",
    answer="TopicData",
)
async def update_topic(call: Call) -> Answering:
    """Raises the number of partitions."""
    wanted = await call.body(PartitionsCountData)
    if not 1 <= wanted.partitions_count <= PARTITIONS_MAX:
        raise HttpError(400, 40002, f"partitions_count must be 1 to {PARTITIONS_MAX}")
    name = call.path["topic_name"]

    def update(admin: Admin) -> TopicInfo:
        admin.create_partitions({name: wanted.partitions_count})
        return admin.describe_topic(name)

    return call.json(topic_data(call, await call.admin(update)))


@operations.add(
    "DELETE",
    "/v3/clusters/{cluster_id}/topics/{topic_name}",
    "deleteKafkaTopic",
    "Deletes a topic and its records.",
    status=204,
)
async def delete_topic(call: Call) -> Answering:
    """Deletes a topic."""
    name = call.path["topic_name"]

    def delete(admin: Admin) -> None:
        admin.delete_topics([name])

    await call.admin(delete)
    return call.nothing()


async def described(call: Call) -> TopicInfo:
    """Returns the topic that the path names.

    Raises:
        UnknownTopicError: it does not exist.
    """
    name = call.path["topic_name"]

    def describe(admin: Admin) -> TopicInfo:
        return admin.describe_topic(name)

    return await call.admin(describe)


def topic_data(call: Call, info: TopicInfo) -> dict[str, Any]:
    """Returns the resource of a topic."""
    cluster_id = call.path["cluster_id"]
    place = (cluster_id, "topics", info.name)
    first = next(iter(info.partitions.values()), None)
    return {
        "kind": "KafkaTopic",
        "metadata": {
            "self": call.links.to(*place),
            "resource_name": resource_name("kafka", cluster_id, "topic", info.name),
        },
        "cluster_id": cluster_id,
        "topic_name": info.name,
        "is_internal": info.internal,
        "replication_factor": 0 if first is None else len(first.replicas),
        "partitions_count": len(info.partitions),
        "partitions": call.links.related(*place, "partitions"),
        "configs": call.links.related(*place, "configs"),
        "partition_reassignments": call.links.related(*place, "partitions", "-", "reassignment"),
        "authorized_operations": [],
    }
