"""Reassignments of partitions to other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.clients.admin.results import Reassignment
from bowstring.clients.records import TopicPartition
from bowstring.rest.answer import Answering
from bowstring.rest.call import Call
from bowstring.rest.client_failure import not_found
from bowstring.rest.links import resource_name
from bowstring.rest.operation import Operations

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

operations = Operations()

_TOPICS = "/v3/clusters/{cluster_id}/topics"
_Row = tuple[TopicPartition, Reassignment]


@operations.add(
    "GET",
    f"{_TOPICS}/-/partitions/-/reassignment",
    "listKafkaAllReassignments",
    "Lists the reassignments under way.",
    answer="ReassignmentDataList",
)
async def list_all(call: Call) -> Answering:
    """Lists the reassignments under way."""

    def listed(admin: Admin) -> list[_Row]:
        return sorted(admin.list_reassignments().items())

    return _list(call, "-", await call.admin(listed))


@operations.add(
    "GET",
    f"{_TOPICS}/{{topic_name}}/partitions/-/reassignment",
    "listKafkaReassignmentsByTopic",
    "Lists the reassignments of a topic's partitions under way.",
    answer="ReassignmentDataList",
)
async def list_of_topic(call: Call) -> Answering:
    """Lists the reassignments of a topic's partitions."""
    topic = call.path["topic_name"]

    def listed(admin: Admin) -> list[_Row]:
        partitions = [TopicPartition(topic, number) for number in admin.describe_topic(topic).partitions]
        return sorted(admin.list_reassignments(partitions).items())

    return _list(call, topic, await call.admin(listed))


@operations.add(
    "GET",
    f"{_TOPICS}/{{topic_name}}/partitions/{{partition_id}}/reassignment",
    "getKafkaReassignment",
    "Shows the reassignment of a partition.",
    answer="ReassignmentData",
)
async def get_one(call: Call) -> Answering:
    """Shows the reassignment of a partition."""
    place = TopicPartition(call.path["topic_name"], call.number("partition_id"))

    def find(admin: Admin) -> Reassignment | None:
        if place.partition not in admin.describe_topic(place.topic).partitions:
            raise not_found(f"Partition not found: {place}.")
        return admin.list_reassignments([place]).get(place)

    found = await call.admin(find)
    if found is None:
        raise not_found(f"{place} is not being reassigned.")
    return call.json(_reassignment(call, (place, found)))


def _list(call: Call, topic: str, rows: list[_Row]) -> Answering:
    link = call.links.to(call.path["cluster_id"], "topics", topic, "partitions", "-", "reassignment")
    return call.collection("KafkaReassignmentList", link, rows, lambda each: _reassignment(call, each))


def _reassignment(call: Call, row: _Row) -> dict[str, Any]:
    place, found = row
    cluster_id = call.path["cluster_id"]
    at = (cluster_id, "topics", place.topic, "partitions", place.partition)
    names = ("kafka", cluster_id, "topic", place.topic, "partition", place.partition, "reassignment", None)
    return {
        "kind": "KafkaReassignment",
        "metadata": {
            "self": call.links.to(*at, "reassignment"),
            "resource_name": resource_name(*names),
        },
        "cluster_id": cluster_id,
        "topic_name": place.topic,
        "partition_id": place.partition,
        "adding_replicas": list(found.adding),
        "removing_replicas": list(found.removing),
        "replicas": call.links.related(*at, "replicas"),
    }
