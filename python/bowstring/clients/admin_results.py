"""What Admin takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bowstring.clients.errors import ClientError
from bowstring.clients.records import Node, TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; -1 takes the broker's default. `assignments`: broker ids by partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


class ClusterDescription(NamedTuple):
    """Who is in the cluster."""

    cluster_id: str
    controller_id: int
    brokers: list[Node]


class ReplicaSize(NamedTuple):
    """A replica in a log directory; `is_future`: a copy on its way there, `offset_lag` behind."""

    size_bytes: int
    offset_lag: int
    is_future: bool = False


class LogDir(NamedTuple):
    """A broker's log directory; sizes are -1 where the broker does not tell."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]
    error: ClientError | None


class ConfigEntry(NamedTuple):
    """One setting of a topic or broker. `source` is Kafka's name of where the value comes from."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source == "DEFAULT_CONFIG"


class GroupListing(NamedTuple):
    """A group as ListGroups tells it; state and type are empty where the broker does not tell."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupMemberDescription(NamedTuple):
    """A member of a group and what it reads."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: list[TopicPartition]


class GroupDescription(NamedTuple):
    """A group with its members."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: list[GroupMemberDescription]


class GroupLag(NamedTuple):
    """How far a group is in one partition; `committed` is None where it has stored nothing."""

    partition: TopicPartition
    committed: int | None
    log_end_offset: int
    lag: int | None
    member: GroupMemberDescription | None
