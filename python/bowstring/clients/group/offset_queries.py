"""Queries offsets and waits for the answers: by timestamp, at the ends, and committed ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from bowstring.clients.errors import ClientError, NoBrokerError, broker_error
from bowstring.clients.group.offset_requests import (
    commit_request,
    commit_results,
    fetch_request,
    fetched_offsets,
    list_offsets_request,
)
from bowstring.clients.net.coordinators import coordinator_request, found_coordinator
from bowstring.clients.net.metadata import ClusterMetadata
from bowstring.clients.records import Node, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.list_offsets import ListOffsetsRequest
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.protocol.messages.offset_fetch import OffsetFetchRequest

T = TypeVar("T")

RETRY_PAUSE_S = 0.05


def retried(cluster: ClusterMetadata, timeout_s: float, attempt: Callable[[float], T]) -> T:
    """Repeats `attempt` (called with the seconds left) while its error is retriable and time is left.

    Makes no attempt without time: its error would hide the brokers' answers to the previous one.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return attempt(max(0.001, deadline - time.monotonic()))
        except ClientError as error:
            retry_at = time.monotonic() + RETRY_PAUSE_S
            if not error.retriable or isinstance(error, NoBrokerError) or retry_at >= deadline:
                raise
        cluster.invalidate()
        cluster.client.troubles.deliver()
        while (left := retry_at - time.monotonic()) > 0:
            cluster.client.poll(min(left, cluster.maintain()))


def list_offsets(
    cluster: ClusterMetadata, timestamps: Mapping[TopicPartition, int], read_committed: bool, timeout_s: float
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Returns the first offset at or after each timestamp (or at a special one); None without such a record.

    Raises:
        NoBrokerError, BrokerError: not answered within `timeout_s`.
    """
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    timestamps = {TopicPartition(*partition): at for partition, at in timestamps.items()}

    def attempt(left_s: float) -> None:
        deadline = time.monotonic() + left_s
        by_leader: dict[Node, dict[TopicPartition, int]] = {}
        for partition, timestamp in timestamps.items():
            if partition not in found:
                node = await_leader(cluster, partition, deadline)
                by_leader.setdefault(node, {})[partition] = timestamp
        for node, asked in by_leader.items():
            request = list_offsets_request(asked, read_committed)
            pending = cluster.client.send(node, ListOffsetsRequest, request, timeout_s=left_s)
            for topic in cluster.client.wait(pending).topics:
                for part in topic.partitions:
                    partition = TopicPartition(topic.name, part.partition_index)
                    if part.error_code:
                        raise broker_error(part.error_code, f"looking up offsets of {partition}")
                    answer = OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch)
                    found[partition] = answer if part.offset >= 0 else None

    retried(cluster, timeout_s, attempt)
    return found


def await_leader(cluster: ClusterMetadata, partition: TopicPartition, deadline: float) -> Node:
    """Returns the leader of a partition; waits for it until `deadline` (monotonic seconds).

    Raises:
        UnknownTopicError: the partition does not exist.
        NoBrokerError: no broker answered.
    """
    left = max(0.001, deadline - time.monotonic())
    info = cluster.await_topic(partition.topic, left)
    if partition.partition not in info.partitions:
        raise broker_error(
            Errors.UNKNOWN_TOPIC_OR_PARTITION.code,
            str(partition),
            f"the topic has partitions 0 to {len(info.partitions) - 1}",
        )
    while True:
        node = cluster.leader(*partition)
        if node is not None:
            return node
        if time.monotonic() >= deadline:
            raise broker_error(Errors.LEADER_NOT_AVAILABLE.code, str(partition))
        cluster.invalidate()
        cluster.client.poll(min(cluster.maintain(), RETRY_PAUSE_S))


def find_coordinator(cluster: ClusterMetadata, group: str, timeout_s: float) -> Node:
    """Returns the broker that coordinates a group; waits until there is one.

    Raises:
        NoBrokerError, BrokerError: not answered within `timeout_s`.
    """

    def attempt(left_s: float) -> Node:
        answer = cluster.call(cluster.any_node, FindCoordinatorRequest, coordinator_request(group), left_s)
        return found_coordinator(answer, group)

    return retried(cluster, timeout_s, attempt)


def committed_offsets(
    cluster: ClusterMetadata,
    group: str,
    partitions: Iterable[TopicPartition] | None,
    timeout_s: float,
    member: Callable[[], tuple[str, int] | None] = lambda: None,
    *,
    metadata_alone: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns a group's committed offsets; partitions without one are left out.

    Args:
        cluster, group: the cluster, and the group whose offsets are requested.
        partitions: None for all.
        timeout_s: seconds.
        member: returns the id and the epoch of the requesting member, None for none.
        metadata_alone: include metadata that was stored with the offset -1, which means none.

    Raises:
        NoBrokerError, BrokerError: not answered within `timeout_s`.
    """
    asked = None if partitions is None else list(partitions)

    def attempt(left_s: float) -> dict[TopicPartition, OffsetAndMetadata]:
        node = find_coordinator(cluster, group, left_s)
        request = fetch_request(group, asked, require_stable=True, member=member())
        pending = cluster.client.send(node, OffsetFetchRequest, request, timeout_s=left_s)
        return fetched_offsets(group, cluster.client.wait(pending), metadata_alone=metadata_alone)

    return retried(cluster, timeout_s, attempt)


def commit_offsets(
    cluster: ClusterMetadata,
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    timeout_s: float,
) -> None:
    """Commits offsets for a group without members, all in one record batch.

    Raises:
        NoBrokerError, BrokerError: not answered within `timeout_s`, or refused for a partition.
    """
    request = commit_request(group, offsets)

    def attempt(left_s: float) -> None:
        node = find_coordinator(cluster, group, left_s)
        pending = cluster.client.send(node, OffsetCommitRequest, request, timeout_s=left_s)
        for partition, code in commit_results(cluster.client.wait(pending)).items():
            if code:
                raise broker_error(code, f"storing the offset of {partition} in group {group!r}")

    retried(cluster, timeout_s, attempt)


def deadline_in(seconds: float) -> float:
    """Returns the monotonic time `seconds` from now."""
    return time.monotonic() + seconds
