"""Turns descriptions of each type of group into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bowstring.clients.admin.results import GroupDescription, GroupMemberDescription, StreamsTask
from bowstring.clients.errors import ProtocolError
from bowstring.clients.group.protocol import decode_assignment
from bowstring.clients.records import Node, TopicPartition
from bowstring.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from bowstring.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from bowstring.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest


class GroupType(NamedTuple):
    """A type of group that has its own API to describe it."""

    request: Any
    description: Callable[[Any, Node], GroupDescription]


def classic_description(answer: Any, coordinator: Node) -> GroupDescription:
    """Returns the description of a classic group."""
    members = [
        GroupMemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _decoded(answer.protocol_type, member.member_assignment),
        )
        for member in answer.members
    ]
    told = (answer.group_id, answer.group_state, answer.protocol_type, answer.protocol_data)
    return GroupDescription(*told, coordinator, members)


def _decoded(protocol_type: str, data: bytes) -> list[TopicPartition]:
    if protocol_type != "consumer":
        return []
    try:
        return sorted(decode_assignment(data))
    except ProtocolError:
        return []  # some clients use their own format here


def _consumer(answer: Any, coordinator: Node) -> GroupDescription:
    members = [
        GroupMemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _partitions(member.assignment),
            member.member_epoch,
            _partitions(member.target_assignment),
        )
        for member in answer.members
    ]
    return _modern(answer, coordinator, members, "consumer")


def _share(answer: Any, coordinator: Node) -> GroupDescription:
    members = [
        GroupMemberDescription(
            member.member_id,
            None,
            member.client_id,
            member.client_host,
            _partitions(member.assignment),
            member.member_epoch,
            _partitions(member.assignment),
        )
        for member in answer.members
    ]
    return _modern(answer, coordinator, members, "share")


def _streams(answer: Any, coordinator: Node) -> GroupDescription:
    members = [
        GroupMemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            [],
            member.member_epoch,
            [],
            _tasks(member.assignment),
        )
        for member in answer.members
    ]
    return _modern(answer, coordinator, members, "streams")


def _modern(
    answer: Any, coordinator: Node, members: list[GroupMemberDescription], group_type: str
) -> GroupDescription:
    return GroupDescription(
        answer.group_id,
        answer.group_state,
        group_type,
        getattr(answer, "assignor_name", ""),
        coordinator,
        members,
        group_type,
        answer.group_epoch,
        answer.assignment_epoch,
    )


def _partitions(assignment: Any) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def _tasks(assignment: Any) -> list[StreamsTask]:
    return [
        StreamsTask(kind, tasks.subtopology_id, number)
        for kind in ("active", "standby", "warmup")
        for tasks in getattr(assignment, f"{kind}_tasks")
        for number in tasks.partitions
    ]


MODERN_BY_NAME = {
    "consumer": GroupType(ConsumerGroupDescribeRequest, _consumer),
    "share": GroupType(ShareGroupDescribeRequest, _share),
    "streams": GroupType(StreamsGroupDescribeRequest, _streams),
}
MODERN = tuple(MODERN_BY_NAME.values())
