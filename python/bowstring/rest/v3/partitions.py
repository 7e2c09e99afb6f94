"""Partitions, their offsets, and their replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.rest.answer import Answering
from bowstring.rest.call import Call
from bowstring.rest.client_failure import bad_request, not_found
from bowstring.rest.links import resource_name
from bowstring.rest.operation import Operations
from bowstring.rest.v3.topics import described
from bowstring.web.http_error import HttpError
from bowstring.web.openapi import Parameter

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

operations = Operations()

_TOPIC = "/v3/clusters/{cluster_id}/topics/{topic_name}"
_PARTITION = _TOPIC + "/partitions/{partition_id}"
OFFSET_TYPE = "earliest_and_latest"


@operations.add(
    "GET",
    f"{_TOPIC}/partitions",
    "listKafkaPartitions",
    "Lists the partitions of a topic.",
    answer="PartitionDataList",
)
async def list_partitions(call: Call) -> Answering:
    """Lists the partitions of a topic."""
    info = await described(call)
    link = call.links.to(call.path["cluster_id"], "topics", info.name, "partitions")
    rows = [each for _, each in sorted(info.partitions.items())]
    return call.collection("KafkaPartitionList", link, rows, lambda each: _partition(call, info.name, each))


@operations.add("GET", _PARTITION, "getKafkaPartition", "Shows a partition.", answer="PartitionData")
async def get_partition(call: Call) -> Answering:
    """Shows a partition."""
    info, partition = await _one(call)
    return call.json(_partition(call, info.name, partition))


@operations.add(
    "GET",
    f"{_PARTITION}/offset",
    "listKafkaPartitionOffsets",
    "Shows the first offset of a partition, and its end.",
    answer="PartitionWithOffsetsData",
    query=(Parameter("offset_type", "What is shown.", {"type": "string", "enum": [OFFSET_TYPE]}),),
)
async def get_offsets(call: Call) -> Answering:
    """Shows the first offset of a partition, and its end."""
    if call.query.get("offset_type", OFFSET_TYPE) != OFFSET_TYPE:
        raise bad_request(f"offset_type must be {OFFSET_TYPE}")
    info, partition = await _one(call)
    place = TopicPartition(info.name, partition.partition)

    def ends(admin: Admin) -> tuple[int, int]:
        return admin.beginning_offsets([place])[place], admin.end_offsets([place])[place]

    first, end = await call.admin(ends)
    cluster_id, number = call.path["cluster_id"], partition.partition
    names = ("kafka", cluster_id, "topic", info.name, "partition", number, "offset_type", OFFSET_TYPE)
    return call.json(
        {
            "kind": "KafkaPartitionWithOffsets",
            "metadata": {
                "self": call.links.to(cluster_id, "topics", info.name, "partitions", number, "offset"),
                "resource_name": resource_name(*names),
            },
            "cluster_id": cluster_id,
            "topic_name": info.name,
            "partition_id": number,
            "earliest_offset": first,
            "latest_offset": end,
        }
    )


@operations.add(
    "GET",
    f"{_PARTITION}/replicas",
    "listKafkaReplicas",
    "Lists the replicas of a partition.",
    answer="ReplicaDataList",
)
async def list_replicas(call: Call) -> Answering:
    """Lists the replicas of a partition."""
    info, partition = await _one(call)
    place = (call.path["cluster_id"], "topics", info.name, "partitions", partition.partition, "replicas")
    return call.collection(
        "KafkaReplicaList",
        call.links.to(*place),
        partition.replicas,
        lambda broker: _replica(call, info.name, partition, broker),
    )


@operations.add(
    "GET",
    f"{_PARTITION}/replicas/{{broker_id}}",
    "getKafkaReplica",
    "Shows a replica.",
    answer="ReplicaData",
)
async def get_replica(call: Call) -> Answering:
    """Shows a replica."""
    broker = call.number("broker_id")
    info, partition = await _one(call)
    if broker not in partition.replicas:
        raise not_found(f"Broker {broker} has no replica of {info.name}-{partition.partition}.")
    return call.json(_replica(call, info.name, partition, broker))


@operations.add(
    "GET",
    "/v3/clusters/{cluster_id}/brokers/{broker_id}/partition-replicas",
    "listKafkaReplicasByBroker",
    "Lists the replicas that a broker has.",
    answer="ReplicaDataList",
)
async def list_replicas_of_broker(call: Call) -> Answering:
    """Lists the replicas that a broker has, by topic and partition."""
    broker = call.number("broker_id")

    def listed(admin: Admin) -> list[tuple[str, PartitionInfo]]:
        if all(node.id != broker for node in admin.describe_cluster().brokers):
            raise not_found(f"Broker {broker} cannot be found.")
        return [
            (name, partition)
            for name, info in sorted(admin.topics(internal=True).items())
            for _, partition in sorted(info.partitions.items())
            if broker in partition.replicas
        ]

    found = await call.admin(listed)
    link = call.links.to(call.path["cluster_id"], "brokers", broker, "partition-replicas")
    return call.collection(
        "KafkaReplicaList", link, found, lambda each: _replica(call, each[0], each[1], broker)
    )


async def _one(call: Call) -> tuple[TopicInfo, PartitionInfo]:
    number = call.number("partition_id")
    info = await described(call)
    partition = info.partitions.get(number)
    if partition is None:
        raise HttpError(404, 40402, f"Partition not found: {info.name} has no partition {number}.")
    return info, partition


def _partition(call: Call, topic: str, partition: PartitionInfo) -> dict[str, Any]:
    cluster_id, number = call.path["cluster_id"], partition.partition
    place = (cluster_id, "topics", topic, "partitions", number)
    answer: dict[str, Any] = {
        "kind": "KafkaPartition",
        "metadata": {
            "self": call.links.to(*place),
            "resource_name": resource_name("kafka", cluster_id, "topic", topic, "partition", number),
        },
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": number,
    }
    if partition.leader >= 0:
        answer["leader"] = call.links.related(*place, "replicas", partition.leader)
    answer["replicas"] = call.links.related(*place, "replicas")
    answer["reassignment"] = call.links.related(*place, "reassignment")
    return answer


def _replica(call: Call, topic: str, partition: PartitionInfo, broker: int) -> dict[str, Any]:
    cluster_id, number = call.path["cluster_id"], partition.partition
    names = ("kafka", cluster_id, "topic", topic, "partition", number, "replica", broker)
    return {
        "kind": "KafkaReplica",
        "metadata": {
            "self": call.links.to(cluster_id, "topics", topic, "partitions", number, "replicas", broker),
            "resource_name": resource_name(*names),
        },
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": number,
        "broker_id": broker,
        "is_leader": broker == partition.leader,
        "is_in_sync": broker in partition.isr,
        "broker": call.links.related(cluster_id, "brokers", broker),
    }
