"""Collects the state of a cluster: nodes, quorum, partitions that lack replicas or a leader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import BrokerError
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.operations.partition_state import MIN_ISR, STATES, state_of

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import BrokerDescription, QuorumDescription, QuorumReplica


@dataclass(frozen=True)
class ClusterStatus:
    """The brokers' view of the cluster.

    Attributes:
        brokers: All that are registered.
        quorum: None if the cluster has none, or does not report it.
        min_isr: min.insync.replicas by topic.
        ends: Log ends by partition and broker.
    """

    cluster_id: str
    brokers: list[BrokerDescription]
    quorum: QuorumDescription | None
    topics: Mapping[str, TopicInfo]
    min_isr: Mapping[str, int]
    ends: Mapping[TopicPartition, Mapping[int, int]]

    # ------------------------------------------------------------ partitions

    @property
    def partitions(self) -> dict[TopicPartition, PartitionInfo]:
        """All partitions."""
        return {
            TopicPartition(name, number): info
            for name, topic in self.topics.items()
            for number, info in topic.partitions.items()
        }

    def lag_of(self, partition: TopicPartition, info: PartitionInfo) -> dict[int, int]:
        """Returns how many records each answering follower lacks, by broker id."""
        ends = self.ends.get(partition, {})
        end = ends.get(info.leader)
        if end is None:
            return {}
        return {id: max(0, end - ends[id]) for id in info.replicas if id != info.leader and id in ends}

    def troubled(self) -> list[dict[str, Any]]:
        """Returns the partitions with problems, the worst first."""
        found = []
        for partition, info in self.partitions.items():
            state = state_of(info, self.min_isr.get(partition.topic, 1))
            if state is not None:
                found.append(
                    {
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "state": state,
                        "leader": info.leader if info.leader >= 0 else None,
                        "replicas": list(info.replicas),
                        "isr": list(info.isr),
                        "lag": self.lag_of(partition, info),
                    }
                )
        return sorted(found, key=lambda each: (STATES.index(each["state"]), each["topic"], each["partition"]))

    # ------------------------------------------------------------ nodes

    def nodes(self) -> list[dict[str, Any]]:
        """Returns the nodes by id, with their parts of the quorum and of the partitions."""
        leads, has, in_sync, behind = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
        for partition, info in self.partitions.items():
            leads[info.leader] += 1
            has.update(info.replicas)
            in_sync.update(info.isr)
            behind.update(self.lag_of(partition, info))
        found: dict[int, dict[str, Any]] = {}
        for broker in self.brokers:
            found[broker.id] = {
                "id": broker.id,
                "address": f"{broker.host}:{broker.port}",
                "roles": ["broker"],
                "fenced": broker.fenced,
                "rack": broker.rack,
                "leaders": leads[broker.id],
                "replicas": has[broker.id],
                "in_sync": in_sync[broker.id],
                "lag": behind[broker.id],
            }
        self._add_quorum(found)
        return [found[id] for id in sorted(found)]

    def _add_quorum(self, nodes: dict[int, dict[str, Any]]) -> None:
        if self.quorum is None:
            return
        end = max((each.log_end_offset for each in self.quorum.voters), default=0)
        for replica in self.quorum.voters:
            node = nodes.setdefault(replica.id, self._only_controller(replica))
            node["roles"].append("controller")
            node["quorum"] = "leader" if replica.id == self.quorum.leader_id else "voter"
        for replica in self.quorum.observers:
            node = nodes.setdefault(replica.id, self._only_controller(replica))
            node["quorum"] = "observer"
        for replica in (*self.quorum.voters, *self.quorum.observers):
            nodes[replica.id]["metadata_lag"] = max(0, end - replica.log_end_offset)

    def _only_controller(self, replica: QuorumReplica) -> dict[str, Any]:
        endpoints = self.quorum.endpoints.get(replica.id, []) if self.quorum is not None else []
        return {
            "id": replica.id,
            "address": ",".join(f"{host}:{port}" for _, host, port in endpoints) or None,
            "roles": [],
            "fenced": None,
            "rack": None,
        }

    # ------------------------------------------------------------ output

    def as_json(self) -> dict[str, Any]:
        """Returns everything for programs."""
        troubled = self.troubled()
        counts = Counter(each["state"] for each in troubled)
        quorum = None
        if self.quorum is not None:
            quorum = {
                "leader_id": self.quorum.leader_id,
                "leader_epoch": self.quorum.leader_epoch,
                "high_watermark": self.quorum.high_watermark,
            }
        return {
            "cluster_id": self.cluster_id,
            "quorum": quorum,
            "nodes": self.nodes(),
            "topics": len(self.topics),
            "partitions": len(self.partitions),
            **{re.sub(r"\W", "_", state.lower()): counts[state] for state in STATES},
            "troubled": troubled,
        }


def collect(admin: Admin) -> ClusterStatus:
    """Collects the state from the brokers.

    Raises:
        ClientError: No broker answers, or one refuses.
    """
    cluster = admin.describe_cluster()
    try:
        quorum = admin.describe_quorum()
    except BrokerError:
        quorum = None  # a cluster with ZooKeeper, or no controller is active
    topics = admin.topics(internal=True)
    configs = admin.topic_configs(topics, MIN_ISR) if topics else {}
    return ClusterStatus(
        cluster.cluster_id,
        admin.describe_brokers(),
        quorum,
        topics,
        {topic: int(value) for topic, value in configs.items() if value is not None},
        admin.replica_ends(),
    )
