"""Measures a cluster from outside: what is written and read, what is behind, what lacks replicas."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import BrokerError, ClientError, UnsupportedApiError
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.operations.group_progress import look_at_groups

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import BrokerDescription, LogDir

GROUPS_S = 5.0
"""Between two looks at groups, which cost more than the others."""


class GroupsLook(NamedTuple):
    """What groups have read.

    Attributes:
        at: seconds of a clock that never goes back.
        committed: offsets by group and partition.
        lag: records that groups have not read.
        groups: how many groups there are.
    """

    at: float
    committed: Mapping[tuple[str, TopicPartition], int]
    lag: int
    groups: int


@dataclass(frozen=True)
class ClusterLook:
    """What a cluster has at one time.

    Attributes:
        at: seconds of a clock that never goes back.
        brokers: those that are registered.
        controller: id of the controller that brokers name; -1 if none.
        topics: all topics.
        ends: end offsets of partitions.
        log_dirs: directories by broker; None if the user may not see them.
        groups: what groups have read; None if the user may not see them.
        groups_before: the look at groups before; the same one at the first.
    """

    at: float
    brokers: Sequence[BrokerDescription]
    controller: int
    topics: Mapping[str, TopicInfo]
    ends: Mapping[TopicPartition, int]
    log_dirs: Mapping[int, Sequence[LogDir]] | None
    groups: GroupsLook | None
    groups_before: GroupsLook | None


class BrokerRow(NamedTuple):
    """One broker. `records`, `bytes`: written a second to the partitions that it leads; sizes in bytes; what
    the user may not see is None. `up`: it is registered, and not fenced.
    """

    id: int
    address: str
    up: bool
    leaders: int
    replicas: int
    out_of_sync: int
    records: float
    bytes: float | None
    size: int | None
    disk_used: float | None


class ClusterRates(NamedTuple):
    """A cluster in numbers. Rates are per second.

    Attributes:
        brokers: a row for each, by id.
        controller: id of the controller; -1 if none.
        topics, partitions: how many.
        offline: partitions without a leader.
        under_replicated: partitions with replicas that are not in sync.
        records_in: records written.
        bytes_in: growth of the leaders' files; None if the user may not see them.
        records_out: records that groups have read, as their offsets say; None if the user may not see them.
        lag: records that groups have not read.
        groups: how many groups.
    """

    brokers: list[BrokerRow]
    controller: int
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    records_in: float
    bytes_in: float | None
    records_out: float | None
    lag: int | None
    groups: int | None


def look_at_cluster(admin: Admin, before: ClusterLook | None = None) -> ClusterLook:
    """Returns what a cluster has now.

    Args:
        admin: client of the cluster.
        before: the look before: groups are looked at again after GROUPS_S only.

    Raises:
        ClientError: no broker answers.
    """
    described = admin.describe_cluster()
    brokers = admin.describe_brokers()
    topics = admin.topics(internal=True)
    at = time.monotonic()
    ends = admin.end_offsets(
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number, info in topic.partitions.items()
        if info.leader >= 0
    )
    try:
        log_dirs: Mapping[int, Sequence[LogDir]] | None = admin.describe_log_dirs()
    except (BrokerError, UnsupportedApiError):
        log_dirs = None
    groups = before.groups if before is not None else None
    groups_before = before.groups_before if before is not None else None
    if groups is None or at - groups.at >= GROUPS_S:
        now = _groups(admin, topics)
        groups, groups_before = now, groups or now
    return ClusterLook(at, brokers, described.controller_id, topics, ends, log_dirs, groups, groups_before)


def _groups(admin: Admin, topics: Mapping[str, TopicInfo]) -> GroupsLook | None:
    try:
        listed = admin.list_groups()
        now = look_at_groups(admin, listed, topics=topics, times=False)
    except (BrokerError, UnsupportedApiError):
        return None
    committed = {
        (group, row.partition): row.committed
        for group, rows in now.lags.items()
        if not isinstance(rows, ClientError)
        for row in rows
        if row.committed is not None
    }
    lag = sum(now.lag(each.group_id) or 0 for each in listed)
    return GroupsLook(time.monotonic(), committed, lag, len(listed))


def cluster_rates(before: ClusterLook, now: ClusterLook) -> ClusterRates:
    """Returns a cluster in numbers, from two looks."""
    elapsed_s = max(now.at - before.at, 1e-3)
    led, held, short = Counter[int](), Counter[int](), Counter[int]()
    records, leaders = Counter[int](), dict[TopicPartition, int]()
    partitions = offline = under = 0
    for name, topic in now.topics.items():
        for number, info in topic.partitions.items():
            partition = TopicPartition(name, number)
            partitions += 1
            offline += info.leader < 0
            under += len(info.isr) < len(info.replicas)
            held.update(info.replicas)
            short.update(set(info.replicas) - set(info.isr))
            if info.leader >= 0:
                leaders[partition] = info.leader
                led[info.leader] += 1
                end = now.ends.get(partition, 0)
                records[info.leader] += max(0, end - before.ends.get(partition, end))
    sizes, grown = _sizes(before, now, leaders)
    rows = [
        BrokerRow(
            broker.id,
            f"{broker.host}:{broker.port}",
            not broker.fenced,
            led[broker.id],
            held[broker.id],
            short[broker.id],
            records[broker.id] / elapsed_s,
            None if grown is None else grown[broker.id] / elapsed_s,
            None if sizes is None else sizes[broker.id],
            _disk_used(now.log_dirs, broker.id),
        )
        for broker in sorted(now.brokers, key=lambda each: each.id)
    ]
    return ClusterRates(
        rows,
        now.controller,
        sum(not topic.internal for topic in now.topics.values()),
        partitions,
        offline,
        under,
        records.total() / elapsed_s,
        None if grown is None else grown.total() / elapsed_s,
        _records_out(now),
        None if now.groups is None else now.groups.lag,
        None if now.groups is None else now.groups.groups,
    )


def _replicas(look: ClusterLook) -> dict[tuple[int, TopicPartition], int]:
    return {
        (broker, partition): replica.size_bytes
        for broker, directories in (look.log_dirs or {}).items()
        for directory in directories
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }


def _sizes(
    before: ClusterLook, now: ClusterLook, leaders: Mapping[TopicPartition, int]
) -> tuple[Counter[int], Counter[int]] | tuple[None, None]:
    """Returns the bytes of each broker, and by how many those of its leaders grew."""
    if now.log_dirs is None or before.log_dirs is None:
        return None, None
    sizes, grown = Counter[int](), Counter[int]()
    old = _replicas(before)
    for (broker, partition), size in _replicas(now).items():
        sizes[broker] += size
        if leaders.get(partition) == broker:
            grown[broker] += max(0, size - old.get((broker, partition), size))
    return sizes, grown


def _disk_used(log_dirs: Mapping[int, Sequence[LogDir]] | None, broker: int) -> float | None:
    """Returns the used share of the fullest disk of a broker."""
    shares = [
        1 - each.usable_bytes / each.total_bytes
        for each in (log_dirs or {}).get(broker, ())
        if each.total_bytes > 0 and each.usable_bytes >= 0
    ]
    return max(shares, default=None)


def _records_out(now: ClusterLook) -> float | None:
    new, old = now.groups, now.groups_before
    if new is None or old is None:
        return None
    if new.at <= old.at:
        return 0.0
    read = sum(max(0, offset - old.committed.get(place, offset)) for place, offset in new.committed.items())
    return read / (new.at - old.at)
