"""Defines arguments and results of Admin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bowstring.clients.errors import ClientError
from bowstring.clients.records import Node, TopicPartition

# True is sent as "true", and a list as its elements with commas.
ConfigValue = str | int | float | bool | list[str] | tuple[str, ...] | None


def config_text(value: ConfigValue) -> str | None:
    """Returns a config's value as Kafka's text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default. `assignments`: broker ids by partition.

    Args:
        name: name of the topic.
        partitions: number of partitions.
        replication_factor: number of replicas of each partition.
        configs: topic configs by name; the others have the broker's defaults.
        assignments: broker ids by partition; leave partitions and replication_factor at -1 then.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


class ClusterDescription(NamedTuple):
    """The brokers of a cluster."""

    cluster_id: str
    controller_id: int
    brokers: list[Node]


class ReplicaSize(NamedTuple):
    """A replica in a log directory. `is_future`: a copy that is moving there and is `offset_lag` behind."""

    size_bytes: int
    offset_lag: int
    is_future: bool = False


class LogDir(NamedTuple):
    """A broker's log directory; sizes are -1 if the broker does not report them."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]
    error: ClientError | None


class ConfigSynonym(NamedTuple):
    """One place that the value of a config is looked for in, and the value there, if any."""

    name: str
    value: str | None
    source: str


class ConfigEntry(NamedTuple):
    """One config of a topic or broker. `source` is Kafka's name for the source of the value; `synonyms` are
    there only if requested.
    """

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source == "DEFAULT_CONFIG"


class GroupListing(NamedTuple):
    """A group in ListGroups; state and type are empty if the broker does not report them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class StreamsTask(NamedTuple):
    """A task of a streams group (KIP-1071). `kind`: "active", "standby" or "warmup"."""

    kind: str
    subtopology: str
    partition: int


class GroupMemberDescription(NamedTuple):
    """A member of a group and its partitions.

    Attributes:
        member_id, group_instance_id, client_id, client_host: its identity.
        assignment: its partitions; of a streams group none.
        epoch: its member epoch; -1 in a classic group.
        target: the partitions that the coordinator wants it to have; those of `assignment` if they are the
            same, or the type has no target.
        tasks: of a streams group.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: list[TopicPartition]
    epoch: int = -1
    target: list[TopicPartition] = []  # noqa: RUF012 - never changed
    tasks: list[StreamsTask] = []  # noqa: RUF012 - never changed


class GroupDescription(NamedTuple):
    """A group with its members.

    Attributes:
        group_id, state, protocol_type, assignor, coordinator, members: as the coordinator reports them.
        group_type: "classic", "consumer" (KIP-848), "share" (KIP-932) or "streams" (KIP-1071).
        group_epoch, assignment_epoch: of its members and of its assignment; -1 for a classic group.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: list[GroupMemberDescription]
    group_type: str = "classic"
    group_epoch: int = -1
    assignment_epoch: int = -1


class ShareOffset(NamedTuple):
    """Where a share group is in a partition: records below `start_offset` are done.

    `lag`: records that it has to process; -1 if the broker does not report it.
    """

    start_offset: int
    leader_epoch: int
    lag: int


class GroupLag(NamedTuple):
    """A group's progress in one partition.

    Attributes:
        partition: topic and partition number.
        committed: None without a committed offset.
        log_end_offset: -1 if the partition is gone or has no leader.
        lag: records between the committed offset and the end; without a committed offset all records of the
            partition; None if the end is not known.
        member: the member that reads it; None for none.
        log_start_offset: offset of the first record; -1 if it is not known.
    """

    partition: TopicPartition
    committed: int | None
    log_end_offset: int
    lag: int | None
    member: GroupMemberDescription | None
    log_start_offset: int = -1


class BrokerDescription(NamedTuple):
    """A registered broker. `fenced`: it is registered, but does not serve; None if the cluster does not
    report it (before Kafka 4.0).
    """

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool | None


class Reassignment(NamedTuple):
    """A reassignment under way: all replicas of the partition, the added ones, and the removed ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class QuorumReplica(NamedTuple):
    """A voter or observer of the metadata log. Times are in ms since the epoch, -1 if unknown.

    `directory_id` is all zeros if unknown.
    """

    id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class FeatureLevels(NamedTuple):
    """The level of a feature in the cluster (0: disabled) and the range that a broker supports.

    Attributes:
        level: in the cluster.
        lowest: that the broker supports.
        highest: that the broker supports.
    """

    level: int
    lowest: int
    highest: int


class QuorumDescription(NamedTuple):
    """The metadata quorum as its leader describes it. `endpoints`: (listener, host, port) of each voter by
    its id; empty if unknown (before Kafka 3.9).
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    endpoints: dict[int, list[tuple[str, str, int]]]


class TransactionListing(NamedTuple):
    """A transactional id in a list. `state`: Kafka's name, such as "Ongoing"."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: Node


class TransactionDescription(NamedTuple):
    """A transactional id. `start_ms`: when its transaction began, in ms since 1970; -1 before the first."""

    transactional_id: str
    state: str
    coordinator: Node
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: list[TopicPartition]


class PartitionProducer(NamedTuple):
    """A producer that a partition remembers.

    `transaction_start_offset`: the first offset of its open transaction; None when it has none.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int
    transaction_start_offset: int | None
