"""Counts the partitions of all topics once for each answer of the cluster, not once for each page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import ClientError
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import topic_configs_of, topics_of
from bowstring.console.partition_list import PartitionList
from bowstring.operations.partition_state import MIN_ISR, OFFLINE, STATES, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SOON_S = 0.15
TROUBLED_MAX = 500
"""Partitions whose topics' min.insync.replicas is looked up."""


class TopicFacts(NamedTuple):
    """One topic in numbers. `short`: partitions with replicas that are not in sync."""

    name: str
    partitions: int
    replication: int
    short: int
    internal: bool


class TroubledPartition(NamedTuple):
    """A partition that lacks replicas. `state` is one of STATES."""

    partition: TopicPartition
    info: PartitionInfo
    state: str


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """All topics in numbers.

    Attributes:
        topics: by name.
        partitions: how many.
        leaders: all that have a leader.
        led, held: partitions that each broker leads, and replicas that it has.
        under_replicated, offline: how many partitions.
        troubled: the first of them, the worst first.
    """

    topics: Mapping[str, TopicFacts]
    partitions: int
    leaders: PartitionList
    led: Mapping[int, int]
    held: Mapping[int, int]
    under_replicated: int
    offline: int
    troubled: Sequence[tuple[TopicPartition, PartitionInfo]]


def summarize(topics: Mapping[str, TopicInfo]) -> ClusterSummary:
    """Returns the numbers of topics."""
    facts: dict[str, TopicFacts] = {}
    leaders = PartitionList()
    led, held = Counter[int](), Counter[int]()
    troubled: list[tuple[TopicPartition, PartitionInfo]] = []
    count = offline = under = 0
    for name, topic in topics.items():
        short = replication = 0
        for number, info in topic.partitions.items():
            count += 1
            replication = max(replication, len(info.replicas))
            held.update(info.replicas)
            if info.leader >= 0:
                leaders.add(name, number)
                led[info.leader] += 1
            if info.leader < 0 or len(info.isr) < len(info.replicas):
                offline += info.leader < 0
                under += len(info.isr) < len(info.replicas)
                short += 1
                troubled.append((TopicPartition(name, number), info))
        internal = topic.internal or name.startswith("__")
        facts[name] = TopicFacts(name, len(topic.partitions), replication, short, internal)
    troubled.sort(key=lambda each: (each[1].leader >= 0, each[0]))
    return ClusterSummary(facts, count, leaders, led, held, under, offline, troubled[:TROUBLED_MAX])


async def summary_of(access: ClusterAccess) -> ClusterSummary:
    """Returns the numbers of the topics that the user sees."""
    topics = await topics_of(access)
    kept: list[tuple[Mapping[str, TopicInfo], ClusterSummary]] = access.shared("summary", list)
    if not kept or kept[0][0] is not topics:
        kept[:] = [(topics, await access.thread(summarize, topics))]
    return kept[0][1]


async def summary_soon(access: ClusterAccess) -> ClusterSummary | None:
    """Returns what `summary_of` does; None if that takes more than SOON_S and the cluster is not known to be
    away: the page loads again by itself (`rendering.awaited`).
    """
    making = asyncio.ensure_future(summary_of(access))
    if not access.trouble and not (await asyncio.wait([making], timeout=SOON_S))[0]:
        making.add_done_callback(lambda task: task.cancelled() or task.exception())
        return None
    return await making


async def troubled_of(access: ClusterAccess) -> list[TroubledPartition]:
    """Returns partitions that lack replicas or a leader with their states, the worst first.

    Where the user may not see configs, min.insync.replicas counts as 1.
    """
    summary = await summary_of(access)
    names = sorted({partition.topic for partition, _ in summary.troubled})
    try:
        min_isr = (await topic_configs_of(access, names, (MIN_ISR,)))[MIN_ISR]
    except ClientError:
        min_isr = {}
    found = [
        TroubledPartition(partition, info, state)
        for partition, info in summary.troubled
        if (state := state_of(info, int(min_isr.get(partition.topic) or 1))) is not None
    ]
    return sorted(found, key=lambda each: (STATES.index(each.state), each.partition))


def kind_of(state: str) -> str:
    """Returns the kind of badge for a state."""
    return "warn" if state not in STATES or STATES.index(state) > STATES.index(OFFLINE) + 1 else "bad"
