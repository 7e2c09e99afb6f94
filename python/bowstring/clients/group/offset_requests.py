"""Encodes requests for offsets, committed ones and those of the log, for consumers and Admin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bowstring.clients.errors import BrokerError, ClientError, broker_error
from bowstring.clients.group.protocol import by_topic
from bowstring.clients.records import OffsetAndMetadata, Record, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

# From this version on one request may name several groups (KIP-709).
GROUPS_VERSION = 8

# From this version on, OffsetFetch may name the requesting member and its epoch (KIP-848).
MEMBER_VERSION = 9

# From this version on OffsetFetch can request every partition of the group.
ALL_PARTITIONS_VERSION = 2


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Converts plain numbers to offsets without metadata, and a record to the offset after it."""
    if isinstance(offsets, Record):
        partition = TopicPartition(offsets.topic, offsets.partition)
        return {partition: OffsetAndMetadata(offsets.offset + 1)}
    return {
        TopicPartition(*partition): offset
        if isinstance(offset, OffsetAndMetadata)
        else OffsetAndMetadata(offset)
        for partition, offset in offsets.items()
    }


def commit_request(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> Callable[[int], OffsetCommitRequest]:
    """Returns a request that commits `offsets`; generation -1 commits from outside the group, which must then
    be empty.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )

    def build(version: int) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=group_instance_id if version >= 7 else None,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )

    return build


def commit_results(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    """Returns the error code by partition; 0 where the offset was stored."""
    return {
        TopicPartition(topic.name, part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }


def fetch_request(
    group: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    member: tuple[str, int] | None = None,
) -> Callable[[int], OffsetFetchRequest]:
    """Returns a request for the committed offsets of `partitions`, or of all when None.

    `member`, an id and its epoch, is refused when the group has changed meanwhile (KIP-848).
    """
    wanted = None if partitions is None else by_topic(partitions)

    def build(version: int) -> OffsetFetchRequest:
        stable = require_stable and version >= 7
        if version >= GROUPS_VERSION:
            topics = None
            if wanted is not None:
                topics = [OffsetFetchRequestTopics(name=n, partition_indexes=p) for n, p in wanted.items()]
            asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
            if member is not None and version >= MEMBER_VERSION:
                asked.member_id, asked.member_epoch = member
            return OffsetFetchRequest(groups=[asked], require_stable=stable)
        old = None
        if wanted is not None:
            old = [OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in wanted.items()]
        return OffsetFetchRequest(group_id=group, topics=old, require_stable=stable)

    return build


# The group has changed since the member's last heartbeat; its next one brings the change.
_MEMBER_CHANGED = (Errors.STALE_MEMBER_EPOCH.code, Errors.UNKNOWN_MEMBER_ID.code)


def fetched_offsets(
    group: str, response: OffsetFetchResponse, *, metadata_alone: bool = False
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the committed offsets; partitions without one are left out.

    Args:
        group, response: the group, and the coordinator's answer.
        metadata_alone: include metadata that was stored with the offset -1, which means none.

    Raises:
        BrokerError: the coordinator refused, for the group or for a partition; retriable also when it has
            the requesting member in another epoch, or no longer.
    """
    code = response.error_code
    topics: Iterable[object] = response.topics
    for answer in response.groups:
        code, topics = answer.error_code, answer.topics
    if code:
        refused = broker_error(code, f"group {group!r}")
        refused.retriable = refused.retriable or code in _MEMBER_CHANGED
        raise refused
    found = {}
    for topic in topics:
        for part in topic.partitions:  # type: ignore[attr-defined]
            partition = TopicPartition(topic.name, part.partition_index)  # type: ignore[attr-defined]
            if part.error_code:
                raise broker_error(part.error_code, f"committed offset of {partition} in group {group!r}")
            if part.committed_offset >= 0 or (metadata_alone and part.metadata):
                found[partition] = OffsetAndMetadata(
                    part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                )
    return found


def is_about_member(error: ClientError) -> bool:
    """Whether `error` means that the group has changed since the requesting member's last heartbeat."""
    return isinstance(error, BrokerError) and error.code in _MEMBER_CHANGED


# Consumers send to the leader; with the other id, every replica answers.
CONSUMER, ANY_REPLICA = -1, -2


def list_offsets_request(
    timestamps: dict[TopicPartition, int], read_committed: bool, replica_id: int = CONSUMER
) -> ListOffsetsRequest:
    """Returns a request for the offsets at `timestamps`."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics.setdefault(topic, []).append(
            ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=1 if read_committed else 0,
        topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
