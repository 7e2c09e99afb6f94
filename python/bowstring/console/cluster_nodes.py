"""Asks for brokers, quorum, log directories and reassignments, as tables that pages show."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import AuthorizationError, BrokerError, ClientError, UnsupportedApiError
from bowstring.clients.records import TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import COST_MAX, STALE_S, Sizes, refusal, sizes_of
from bowstring.console.cluster_summary import ClusterSummary

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import (
        BrokerDescription,
        FeatureLevels,
        QuorumDescription,
        Reassignment,
    )

NODES_S = 3.0
FEATURES_S = 60.0
REASSIGNMENTS_S = 3.0


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """The nodes of a cluster.

    Attributes:
        brokers: all that are registered.
        quorum: None if the cluster does not show it; `quorum_missing` says why.
        cluster_id, controller_id: of the cluster; the id of the active controller where there is a quorum.
    """

    cluster_id: str
    controller_id: int
    brokers: Sequence[BrokerDescription]
    quorum: QuorumDescription | None
    quorum_missing: str


class BrokerRow(NamedTuple):
    """A broker in numbers; bytes are None where they are unknown."""

    broker: BrokerDescription
    leads: int
    holds: int
    used: int | None
    total: int | None
    free: int | None


class QuorumRow(NamedTuple):
    """A voter or observer of the metadata log."""

    id: int
    role: str
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int
    address: str


class ReassignmentRow(NamedTuple):
    """A reassignment under way. `copied`, `whole`: bytes on the added replicas, and what they will have."""

    partition: TopicPartition
    reassignment: Reassignment
    copied: int | None
    whole: int | None


async def nodes_of(access: ClusterAccess) -> ClusterNodes:
    """Returns brokers and quorum."""
    return await access.cached(("nodes",), NODES_S, _nodes, cost_max=COST_MAX)


def _nodes(admin: Admin) -> ClusterNodes:
    cluster = admin.describe_cluster()
    quorum, missing = None, ""
    try:
        quorum = admin.describe_quorum()
    except (AuthorizationError, BrokerError, UnsupportedApiError) as error:
        missing = refusal(error)
    controller = quorum.leader_id if quorum is not None else cluster.controller_id
    return ClusterNodes(cluster.cluster_id, controller, admin.describe_brokers(), quorum, missing)


def broker_rows(nodes: ClusterNodes, summary: ClusterSummary, sizes: Sizes) -> list[BrokerRow]:
    """Returns a row for each broker, by id."""
    found = []
    for broker in sorted(nodes.brokers):
        directories = sizes.by_broker.get(broker.id)
        used = total = free = None
        if directories is not None:
            used = sum(one.size_bytes for one in directories)
            if all(one.total_bytes >= 0 for one in directories):
                total = sum(one.total_bytes for one in directories)
                free = sum(one.usable_bytes for one in directories)
        row = BrokerRow(
            broker, summary.led.get(broker.id, 0), summary.held.get(broker.id, 0), used, total, free
        )
        found.append(row)
    return found


def quorum_rows(nodes: ClusterNodes) -> list[QuorumRow]:
    """Returns voters, then observers; `lag` is in records of the metadata log."""
    quorum = nodes.quorum
    if quorum is None:
        return []
    everyone = [(each, "voter") for each in quorum.voters] + [(each, "observer") for each in quorum.observers]
    end = max((each.log_end_offset for each, _ in everyone), default=0)
    return [
        QuorumRow(
            each.id,
            "leader" if each.id == quorum.leader_id and role == "voter" else role,
            max(0, end - each.log_end_offset),
            each.last_fetch_ms,
            each.last_caught_up_ms,
            ", ".join(f"{host}:{port}" for _, host, port in quorum.endpoints.get(each.id, ())),
        )
        for each, role in everyone
    ]


async def features_of(access: ClusterAccess) -> Mapping[str, FeatureLevels]:
    """Returns the finalized features of the cluster, such as metadata.version."""
    return await access.cached(
        ("features",), FEATURES_S, lambda admin: admin.describe_features(), stale_s=STALE_S
    )


async def reassignments_of(access: ClusterAccess) -> list[ReassignmentRow]:
    """Returns the reassignments under way with what is copied so far."""
    running, replicas = await access.cached(
        ("reassignments",), REASSIGNMENTS_S, _reassignments, cost_max=COST_MAX
    )
    if not running:
        return []
    sizes = await sizes_of(access)
    found = []
    for partition, each in sorted(running.items()):
        whole = sizes.of_partition(partition)
        copied = None if whole is None else sum(replicas.get((partition, id), 0) for id in each.adding)
        found.append(
            ReassignmentRow(partition, each, copied, None if whole is None else whole * len(each.adding))
        )
    return found


def _reassignments(
    admin: Admin,
) -> tuple[Mapping[TopicPartition, Reassignment], Mapping[tuple[TopicPartition, int], int]]:
    """Returns the reassignments, and the bytes of the replicas that are added."""
    running = admin.list_reassignments()
    replicas: dict[tuple[TopicPartition, int], int] = {}
    for broker in {id for each in running.values() for id in each.adding}:
        with contextlib.suppress(ClientError):  # the table says that sizes are missing
            for directory in admin.describe_log_dirs_of(broker):
                replicas |= {
                    (partition, broker): replica.size_bytes
                    for partition, replica in directory.replicas.items()
                    if partition in running
                }
    return running, replicas
