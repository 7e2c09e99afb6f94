"""Consumer groups: members, what they are assigned, and lags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bowstring.clients.admin.results import GroupDescription, GroupLag, GroupMemberDescription
from bowstring.clients.errors import AuthorizationError, ClientError
from bowstring.rest.answer import Answering
from bowstring.rest.call import Call
from bowstring.rest.client_failure import not_found
from bowstring.rest.links import resource_name
from bowstring.rest.operation import Operations

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.records import TopicPartition

operations = Operations()

_GROUPS = "/v3/clusters/{cluster_id}/consumer-groups"
_GROUP = _GROUPS + "/{consumer_group_id}"
_CONSUMER = _GROUP + "/consumers/{consumer_id}"
_AT = "{topic_name}/partitions/{partition_id}"
TYPES = ("classic", "consumer")


@operations.add(
    "GET", _GROUPS, "listKafkaConsumerGroups", "Lists the consumer groups.", answer="ConsumerGroupDataList"
)
async def list_groups(call: Call) -> Answering:
    """Lists the consumer groups that the caller may describe."""

    def listed(admin: Admin) -> list[GroupDescription]:
        wanted = [
            each
            for each in admin.list_groups(types=())
            if (each.group_type or "classic").casefold() in TYPES and each.protocol_type in ("", "consumer")
        ]
        found = admin.describe_groups(wanted)
        for each in found.values():
            gone = getattr(each, "name", "") == "GROUP_ID_NOT_FOUND"
            if isinstance(each, ClientError) and not isinstance(each, AuthorizationError) and not gone:
                raise each
        return [each for _, each in sorted(found.items()) if isinstance(each, GroupDescription)]

    groups = await call.admin(listed)
    link = call.links.to(call.path["cluster_id"], "consumer-groups")
    return call.collection("KafkaConsumerGroupList", link, groups, lambda each: _group(call, each))


@operations.add("GET", _GROUP, "getKafkaConsumerGroup", "Shows a consumer group.", answer="ConsumerGroupData")
async def get_group(call: Call) -> Answering:
    """Shows a consumer group."""
    return call.json(_group(call, await _described(call)))


@operations.add(
    "GET",
    f"{_GROUP}/consumers",
    "listKafkaConsumers",
    "Lists the members of a group.",
    answer="ConsumerDataList",
)
async def list_consumers(call: Call) -> Answering:
    """Lists the members of a group."""
    group = await _described(call)
    link = call.links.to(*_place(call), "consumers")
    rows = sorted(group.members, key=lambda each: each.member_id)
    return call.collection("KafkaConsumerList", link, rows, lambda each: _consumer(call, each))


@operations.add("GET", _CONSUMER, "getKafkaConsumer", "Shows a member of a group.", answer="ConsumerData")
async def get_consumer(call: Call) -> Answering:
    """Shows a member of a group."""
    return call.json(_consumer(call, await _member(call)))


@operations.add(
    "GET",
    f"{_CONSUMER}/assignments",
    "listKafkaConsumerAssignment",
    "Lists the partitions that a member reads.",
    answer="ConsumerAssignmentDataList",
)
async def list_assignments(call: Call) -> Answering:
    """Lists the partitions that a member reads."""
    member = await _member(call)
    link = call.links.to(*_place(call), "consumers", member.member_id, "assignments")
    rows = sorted(member.assignment)
    return call.collection(
        "KafkaConsumerAssignmentList", link, rows, lambda each: _assignment(call, member.member_id, each)
    )


@operations.add(
    "GET",
    f"{_CONSUMER}/assignments/{_AT}",
    "getKafkaConsumerAssignment",
    "Shows a partition that a member reads.",
    answer="ConsumerAssignmentData",
)
async def get_assignment(call: Call) -> Answering:
    """Shows a partition that a member reads."""
    number = call.number("partition_id")
    member = await _member(call)
    for each in member.assignment:
        if each.topic == call.path["topic_name"] and each.partition == number:
            return call.json(_assignment(call, member.member_id, each))
    raise not_found(f"{member.member_id} does not read {call.path['topic_name']}-{number}.")


@operations.add(
    "GET",
    f"{_GROUP}/lags",
    "listKafkaConsumerLags",
    "Lists the lags of a group, the largest first.",
    answer="ConsumerLagDataList",
)
async def list_lags(call: Call) -> Answering:
    """Lists the lags of a group in the partitions in which it committed offsets."""
    rows = await _lags(call)
    link = call.links.to(*_place(call), "lags")
    rows.sort(key=lambda each: (-(each.lag or 0), each.partition))
    return call.collection("KafkaConsumerLagList", link, rows, lambda each: _lag(call, each))


@operations.add(
    "GET",
    f"{_GROUP}/lags/{_AT}",
    "getKafkaConsumerLag",
    "Shows the lag of a group in a partition.",
    answer="ConsumerLagData",
)
async def get_lag(call: Call) -> Answering:
    """Shows the lag of a group in a partition."""
    number = call.number("partition_id")
    for each in await _lags(call):
        if each.partition.topic == call.path["topic_name"] and each.partition.partition == number:
            return call.json(_lag(call, each))
    raise not_found(f"The group has no offset in {call.path['topic_name']}-{number}.")


@operations.add(
    "GET",
    f"{_GROUP}/lag-summary",
    "getKafkaConsumerGroupLagSummary",
    "Shows the largest lag of a group, and the sum of its lags.",
    answer="ConsumerGroupLagSummaryData",
)
async def get_lag_summary(call: Call) -> Answering:
    """Shows the largest lag of a group, and the sum of its lags."""
    rows = await _lags(call)
    largest = max(rows, key=lambda each: each.lag or 0)
    member = largest.member
    cluster_id, group = call.path["cluster_id"], call.path["consumer_group_id"]
    topic, number = largest.partition
    return call.json(
        {
            "kind": "KafkaConsumerGroupLagSummary",
            "metadata": {
                "self": call.links.to(*_place(call), "lag-summary"),
                "resource_name": resource_name(
                    "kafka", cluster_id, "consumer-group", group, "lag-summary", None
                ),
            },
            "cluster_id": cluster_id,
            "consumer_group_id": group,
            "max_lag_consumer_id": "" if member is None else member.member_id,
            "max_lag_instance_id": None if member is None else member.group_instance_id,
            "max_lag_client_id": "" if member is None else member.client_id,
            "max_lag_topic_name": topic,
            "max_lag_partition_id": number,
            "max_lag": max(0, largest.lag or 0),
            "total_lag": sum(max(0, each.lag or 0) for each in rows),
            "max_lag_consumer": call.links.related(
                *_place(call), "consumers", "" if member is None else member.member_id
            ),
            "max_lag_partition": call.links.related(cluster_id, "topics", topic, "partitions", number),
        }
    )


async def _described(call: Call) -> GroupDescription:
    name = call.path["consumer_group_id"]

    def describe(admin: Admin) -> GroupDescription:
        return admin.describe_group(name)

    found = await call.admin(describe)
    if found.group_type not in TYPES:
        raise not_found(f"Consumer Group {name} could not be found: it is of type {found.group_type}.")
    return found


async def _member(call: Call) -> GroupMemberDescription:
    for each in (await _described(call)).members:
        if each.member_id == call.path["consumer_id"]:
            return each
    raise not_found(f"Consumer {call.path['consumer_id']} cannot be found.")


async def _lags(call: Call) -> list[GroupLag]:
    await _described(call)
    name = call.path["consumer_group_id"]

    def listed(admin: Admin) -> list[GroupLag]:
        return [each for each in admin.group_lag(name) if each.committed is not None and each.lag is not None]

    found = await call.admin(listed)
    if not found:
        raise not_found("Consumer group offsets could not be found.")
    return found


def _place(call: Call) -> tuple[str, str, str]:
    return call.path["cluster_id"], "consumer-groups", call.path["consumer_group_id"]


def state_name(state: str) -> str:
    """Returns a state of a group as the API spells it: PREPARING_REBALANCE for PreparingRebalance."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper() or "UNKNOWN"


def _group(call: Call, each: GroupDescription) -> dict[str, Any]:
    cluster_id = call.path["cluster_id"]
    place = (cluster_id, "consumer-groups", each.group_id)
    return {
        "kind": "KafkaConsumerGroup",
        "metadata": {
            "self": call.links.to(*place),
            "resource_name": resource_name("kafka", cluster_id, "consumer-group", each.group_id),
        },
        "cluster_id": cluster_id,
        "consumer_group_id": each.group_id,
        "is_simple": each.group_type == "classic" and not each.protocol_type,
        "partition_assignor": each.assignor,
        "state": state_name(each.state),
        "type": each.group_type.upper(),
        "is_mixed_consumer_group": False,
        "coordinator": call.links.related(cluster_id, "brokers", each.coordinator.id),
        "consumers": call.links.related(*place, "consumers"),
        "lag_summary": call.links.related(*place, "lag-summary"),
    }


def _consumer(call: Call, each: GroupMemberDescription) -> dict[str, Any]:
    cluster_id, _, group = _place(call)
    place = (*_place(call), "consumers", each.member_id)
    return {
        "kind": "KafkaConsumer",
        "metadata": {
            "self": call.links.to(*place),
            "resource_name": resource_name(
                "kafka", cluster_id, "consumer-group", group, "consumer", each.member_id
            ),
        },
        "cluster_id": cluster_id,
        "consumer_group_id": group,
        "consumer_id": each.member_id,
        "instance_id": each.group_instance_id,
        "client_id": each.client_id,
        "assignments": call.links.related(*place, "assignments"),
    }


def _assignment(call: Call, member: str, each: TopicPartition) -> dict[str, Any]:
    cluster_id, _, group = _place(call)
    at = (each.topic, "partitions", each.partition)
    names = (
        "consumer-group",
        group,
        "consumer",
        member,
        "assignment",
        each.topic,
        "partition",
        each.partition,
    )
    return {
        "kind": "KafkaConsumerAssignment",
        "metadata": {
            "self": call.links.to(*_place(call), "consumers", member, "assignments", *at),
            "resource_name": resource_name("kafka", cluster_id, *names),
        },
        "cluster_id": cluster_id,
        "consumer_group_id": group,
        "consumer_id": member,
        "topic_name": each.topic,
        "partition_id": each.partition,
        "partition": call.links.related(cluster_id, "topics", *at),
        "lag": call.links.related(*_place(call), "lags", *at),
    }


def _lag(call: Call, each: GroupLag) -> dict[str, Any]:
    cluster_id, _, group = _place(call)
    topic, number = each.partition
    names = ("consumer-group", group, "lag", topic, "partition", number)
    return {
        "kind": "KafkaConsumerLag",
        "metadata": {
            "self": call.links.to(*_place(call), "lags", topic, "partitions", number),
            "resource_name": resource_name("kafka", cluster_id, *names),
        },
        "cluster_id": cluster_id,
        "consumer_group_id": group,
        "topic_name": topic,
        "partition_id": number,
        "consumer_id": "" if each.member is None else each.member.member_id,
        "instance_id": None if each.member is None else each.member.group_instance_id,
        "client_id": "" if each.member is None else each.member.client_id,
        "current_offset": each.committed,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
    }
