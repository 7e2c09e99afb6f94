"""Clusters and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.rest.answer import Answering
from bowstring.rest.call import Call
from bowstring.rest.client_failure import not_found
from bowstring.rest.links import resource_name
from bowstring.rest.operation import Operations

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import ClusterDescription
    from bowstring.clients.records import Node

operations = Operations()


def _described(admin: Admin) -> ClusterDescription:
    return admin.describe_cluster()


@operations.add("GET", "/v3/clusters", "listKafkaClusters", "Lists the cluster.", answer="ClusterDataList")
async def list_clusters(call: Call) -> Answering:
    """Lists the one cluster behind the proxy."""
    found = await call.admin(_described)
    return call.collection("KafkaClusterList", call.links.to(), [found], lambda each: _cluster(call, each))


@operations.add(
    "GET", "/v3/clusters/{cluster_id}", "getKafkaCluster", "Shows the cluster.", answer="ClusterData"
)
async def get_cluster(call: Call) -> Answering:
    """Shows the cluster."""
    return call.json(_cluster(call, await call.admin(_described)))


@operations.add(
    "GET",
    "/v3/clusters/{cluster_id}/brokers",
    "listKafkaBrokers",
    "Lists the brokers.",
    answer="BrokerDataList",
)
async def list_brokers(call: Call) -> Answering:
    """Lists the brokers."""
    found = await call.admin(_described)
    link = call.links.to(found.cluster_id, "brokers")
    return call.collection(
        "KafkaBrokerList", link, found.brokers, lambda each: _broker(call, found.cluster_id, each)
    )


@operations.add(
    "GET",
    "/v3/clusters/{cluster_id}/brokers/{broker_id}",
    "getKafkaBroker",
    "Shows a broker.",
    answer="BrokerData",
)
async def get_broker(call: Call) -> Answering:
    """Shows a broker."""
    number = call.number("broker_id")
    found = await call.admin(_described)
    for each in found.brokers:
        if each.id == number:
            return call.json(_broker(call, found.cluster_id, each))
    raise not_found(f"Broker {number} cannot be found.")


def _cluster(call: Call, found: ClusterDescription) -> dict[str, Any]:
    links, id = call.links, found.cluster_id
    answer: dict[str, Any] = {
        "kind": "KafkaCluster",
        "metadata": {"self": links.to(id), "resource_name": resource_name("kafka", id)},
        "cluster_id": id,
    }
    if found.controller_id >= 0:
        answer["controller"] = links.related(id, "brokers", found.controller_id)
    for name in ("acls", "brokers", "broker-configs", "consumer-groups", "topics"):
        answer[name.replace("-", "_")] = links.related(id, name)
    answer["partition_reassignments"] = links.related(id, "topics", "-", "partitions", "-", "reassignment")
    return answer


def _broker(call: Call, cluster_id: str, node: Node) -> dict[str, Any]:
    place = (cluster_id, "brokers", node.id)
    return {
        "kind": "KafkaBroker",
        "metadata": {
            "self": call.links.to(*place),
            "resource_name": resource_name("kafka", cluster_id, "broker", node.id),
        },
        "cluster_id": cluster_id,
        "broker_id": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "configs": call.links.related(*place, "configs"),
        "partition_replicas": call.links.related(*place, "partition-replicas"),
    }
