"""Brokers, topics, partitions and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import BrokerError
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.rest.answer import Answering
from bowstring.rest.v2.v2_call import V2Call, V2Operations
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

operations = V2Operations()


@operations.add_v2("GET", "/", "v2Root", "Does nothing: says that the proxy serves.", answer="V2Empty")
async def root(call: V2Call) -> Answering:
    """Answers with an empty object."""
    return call.json({})


@operations.add_v2(
    "POST",
    "/",
    "v2PostRoot",
    "Does nothing: says that the proxy serves.",
    body="V2Texts",
    needs_body=False,
    answer="V2Empty",
)
async def post_root(call: V2Call) -> Answering:
    """Answers with an empty object."""
    await call.body(dict[str, str], {})
    return call.json({})


@operations.add_v2("GET", "/brokers", "v2ListBrokers", "Lists the ids of the brokers.", answer="V2Brokers")
async def list_brokers(call: V2Call) -> Answering:
    """Lists the ids of the brokers."""
    found = await call.caller.admin(lambda admin: admin.describe_cluster())
    return call.json({"brokers": [each.id for each in found.brokers]})


@operations.add_v2("GET", "/topics", "v2ListTopics", "Lists the names of the topics.", answer="V2Names")
async def list_topics(call: V2Call) -> Answering:
    """Lists the names of the topics, internal ones too."""
    found = await call.caller.admin(lambda admin: sorted(admin.topics(internal=True)))
    return call.json(found)


@operations.add_v2(
    "GET",
    "/topics/{topic_name}",
    "v2GetTopic",
    "Shows a topic, its configs and partitions.",
    answer="V2Topic",
)
async def get_topic(call: V2Call) -> Answering:
    """Shows a topic."""
    name = call.path["topic_name"]

    def describe(admin: Admin) -> tuple[TopicInfo, dict[str, Any]]:
        info = admin.describe_topic(name)
        return info, admin.describe_configs("topic", name)

    info, configs = await call.caller.admin(describe)
    return call.json(
        {
            "name": info.name,
            "configs": {name: configs[name].value for name in sorted(configs)},
            "partitions": [_partition(each) for _, each in sorted(info.partitions.items())],
        }
    )


@operations.add_v2(
    "GET",
    "/topics/{topic_name}/partitions",
    "v2ListPartitions",
    "Lists partitions.",
    answer="V2Partitions",
)
async def list_partitions(call: V2Call) -> Answering:
    """Lists the partitions of a topic."""
    info = await _described(call)
    return call.json([_partition(each) for _, each in sorted(info.partitions.items())])


@operations.add_v2(
    "GET",
    "/topics/{topic_name}/partitions/{partition_id}",
    "v2GetPartition",
    "Shows a partition.",
    answer="V2Partition",
)
async def get_partition(call: V2Call) -> Answering:
    """Shows a partition."""
    number = call.number("partition_id")
    info = await _described(call)
    return call.json(_partition(_one(info, number)))


@operations.add_v2(
    "GET",
    "/topics/{topic_name}/partitions/{partition_id}/offsets",
    "v2GetOffsets",
    "Shows the first offset of a partition, and its end.",
    answer="V2PartitionOffsets",
)
async def get_offsets(call: V2Call) -> Answering:
    """Shows the first offset of a partition, and its end."""
    number = call.number("partition_id")
    name = call.path["topic_name"]

    def ends(admin: Admin) -> tuple[int, int]:
        _one(admin.describe_topic(name), number)
        place = TopicPartition(name, number)
        try:
            return admin.beginning_offsets([place])[place], admin.end_offsets([place])[place]
        except BrokerError as error:
            if error.name == "LEADER_NOT_AVAILABLE":
                raise HttpError(404, 40404, f"Leader not available. {error}") from error
            raise

    first, end = await call.caller.admin(ends)
    return call.json({"beginning_offset": first, "end_offset": end})


async def _described(call: V2Call) -> TopicInfo:
    name = call.path["topic_name"]

    def describe(admin: Admin) -> TopicInfo:
        return admin.describe_topic(name)

    return await call.caller.admin(describe)


def _one(info: TopicInfo, number: int) -> PartitionInfo:
    """Returns a partition of a topic.

    Raises:
        HttpError: 40402, the topic does not have it.
    """
    found = info.partitions.get(number)
    if found is None:
        raise HttpError(404, 40402, f"Partition not found. {info.name} has no partition {number}.")
    return found


def _partition(info: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": info.partition,
        "leader": info.leader,
        "replicas": [
            {"broker": each, "leader": each == info.leader, "in_sync": each in info.isr}
            for each in info.replicas
        ],
    }
