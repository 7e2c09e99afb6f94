"""Requests of admin clients about the offsets of share groups."""

from typing import Any

from bowstring.protocol.messages import alter_share_group_offsets as alter
from bowstring.protocol.messages import describe_share_group_offsets as describe
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient


def alter_request(group: str, topic: str, offsets: dict[int, int]) -> alter.AlterShareGroupOffsetsRequest:
    """Sets start offsets by partition."""
    partitions = [
        alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        for index, offset in offsets.items()
    ]
    wanted = alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    return alter.AlterShareGroupOffsetsRequest(group_id=group, topics=[wanted])


def is_altered(answer: Any) -> bool:
    """Whether all offsets are set."""
    return not answer.error_code and not any(
        each.error_code for topic in answer.responses for each in topic.partitions
    )


def describe_request(group: str) -> describe.DescribeShareGroupOffsetsRequest:
    """Requests all offsets of a group."""
    wanted = describe.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    return describe.DescribeShareGroupOffsetsRequest(groups=[wanted])


def described(answer: Any) -> dict[tuple[str, int], int]:
    """Returns start offsets by topic and partition."""
    (group,) = answer.groups
    return {
        (topic.topic_name, each.partition_index): each.start_offset
        for topic in group.topics
        for each in topic.partitions
    }


def alter_at(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Sets start offsets at a single broker."""
    client = _client(bootstrap)
    found = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    wait_until(lambda: client.ask(found).coordinators[0].error_code == 0)
    wait_until(lambda: is_altered(client.ask(alter_request(group, topic, offsets))))
    client.close()


def offsets_at(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Returns the start offsets of a single broker."""
    client = _client(bootstrap)
    request = describe_request(group)
    answer = wait_until(lambda: _without_error(client.ask(request)), f"no offsets of {group}")
    client.close()
    return described(answer)


def _without_error(answer: Any) -> Any:
    return answer if not answer.groups[0].error_code else None


def _client(bootstrap: str) -> WireClient:
    host, _, port = bootstrap.rpartition(":")
    return WireClient(int(port), host)
