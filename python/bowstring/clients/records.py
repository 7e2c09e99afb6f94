"""Defines arguments and results of the clients: partitions, records, offsets and metadata."""

from __future__ import annotations

from typing import Any, NamedTuple

from bowstring.clients.ranges import PartitionNumber

# Special timestamps of ListOffsets.
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3  # KIP-734
EARLIEST_LOCAL_TIMESTAMP = -4  # KIP-405
LATEST_TIERED_TIMESTAMP = -5  # KIP-1005

CREATE_TIME = 0
LOG_APPEND_TIME = 1

Headers = tuple[tuple[str, bytes | None], ...]


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Attributes:
        topic: name of the topic.
        partition: number of the partition, from 0.
    """

    topic: str
    partition: PartitionNumber

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SubscriptionPattern(NamedTuple):
    """An RE2 expression for whole names of topics, which the group coordinator resolves (KIP-848).

    Subscribing by it needs group_protocol="consumer". Brokers look for new topics that match, and the client
    learns only of topics that it reads.

    Attributes:
        pattern: the expression.
    """

    pattern: str


class Record(NamedTuple):
    """One record as returned to a consumer.

    Attributes:
        topic, partition: where it was read.
        offset: its place in the partition.
        timestamp: milliseconds since the epoch.
        timestamp_type: CREATE_TIME (0), set by the producer, or LOG_APPEND_TIME (1), set by the broker.
        key: bytes, or None; of a Consumer with a format for keys the decoded object.
        value: bytes; None is a tombstone; with a format for values the decoded object.
        headers: pairs of a name and bytes, or None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Headers


class RecordMetadata(NamedTuple):
    """Position of a produced record.

    Attributes:
        topic, partition: where it was written.
        offset: its place in the partition; -1 with acks=0, where brokers do not answer.
        timestamp: milliseconds since the epoch.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndMetadata(NamedTuple):
    """A committed position.

    Attributes:
        offset: offset of the next record to read.
        leader_epoch: epoch of the leader that the last record was read from (KIP-320); -1 if unknown.
        metadata: text that is stored with the offset.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupMetadata(NamedTuple):
    """The member of a group whose offsets a transaction commits (KIP-447). From `Consumer.group_metadata()`.

    Attributes:
        group_id: the group.
        generation_id: its generation; -1 for offsets from outside a membership.
        member_id: the member in this generation.
        group_instance_id: of a static member.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class Node(NamedTuple):
    """A broker's address."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (node {self.id})"


class PartitionInfo(NamedTuple):
    """Metadata of a partition; `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicInfo(NamedTuple):
    """Metadata of a topic."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: dict[int, PartitionInfo]
