"""Encodes requests for the offsets of share groups, and reads the answers (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bowstring.clients.admin.results import ShareOffset
from bowstring.clients.errors import broker_error
from bowstring.clients.group.protocol import by_topic
from bowstring.clients.records import TopicPartition
from bowstring.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
)


def describe_request(group: str, partitions: Iterable[TopicPartition] | None) -> Any:
    """Returns a request for `partitions`, or for all when None."""
    messages = describe_share_group_offsets
    topics = None
    if partitions is not None:
        topics = [
            messages.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    asked = messages.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    return messages.DescribeShareGroupOffsetsRequest(groups=[asked])


def check_description(group: str) -> Callable[[Any], None]:
    """Returns a check that raises the first error of an answer."""

    def check(response: Any) -> None:
        for answer in response.groups:
            _raise(answer, f"share group {group!r}")
            for topic in answer.topics:
                for part in topic.partitions:
                    _raise(part, f"offset of {topic.topic_name}-{part.partition_index} in {group!r}")

    return check


def described(response: Any) -> dict[TopicPartition, ShareOffset]:
    """Returns the offsets; partitions in which the group has not begun are left out."""
    return {
        TopicPartition(topic.topic_name, part.partition_index): ShareOffset(
            part.start_offset, part.leader_epoch, part.lag
        )
        for answer in response.groups
        for topic in answer.topics
        for part in topic.partitions
        if part.start_offset >= 0
    }


def alter_request(group: str, offsets: Mapping[TopicPartition, int]) -> Any:
    """Returns a request that moves the group to `offsets`."""
    messages = alter_share_group_offsets
    topics: dict[str, list[messages.AlterShareGroupOffsetsRequestPartition]] = {}
    for (name, number), offset in offsets.items():
        part = messages.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        topics.setdefault(name, []).append(part)
    return messages.AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            messages.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)
            for name, parts in topics.items()
        ],
    )


def check_alteration(group: str) -> Callable[[Any], None]:
    """Returns a check that raises the first error of an answer."""

    def check(response: Any) -> None:
        _raise(response, f"share group {group!r}")
        for topic in response.responses:
            for part in topic.partitions:
                _raise(part, f"moving {group!r} in {topic.topic_name}-{part.partition_index}")

    return check


def delete_request(group: str, topics: Iterable[str]) -> Any:
    """Returns a request that deletes the offsets of topics."""
    messages = delete_share_group_offsets
    named = [messages.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return messages.DeleteShareGroupOffsetsRequest(group_id=group, topics=named)


def check_deletion(group: str) -> Callable[[Any], None]:
    """Returns a check that raises the first error of an answer."""

    def check(response: Any) -> None:
        _raise(response, f"share group {group!r}")
        for topic in response.responses:
            _raise(topic, f"deleting the offsets of {topic.topic_name!r} in {group!r}")

    return check


def _raise(answer: Any, context: str) -> None:
    if answer.error_code:
        raise broker_error(answer.error_code, context, answer.error_message)
