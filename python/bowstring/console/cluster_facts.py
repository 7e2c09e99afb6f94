"""Asks the cluster what pages share: topics, sizes, configs; each at the pace that its cost allows."""

from __future__ import annotations

import asyncio
import contextlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import AuthorizationError, BrokerError, ClientError, UnsupportedApiError
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.console.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import LogDir

COST_MAX = 0.01
"""Share of the time that the console lets the cluster work on one kind of question."""
METADATA_S = 5.0
SIZES_S = 15.0
CONFIGS_S = 30.0
STALE_S = 600.0
PATIENCE_S = 0.2
"""How long a page waits for what it can do without."""
_METADATA, _SIZES = ("metadata",), ("log dirs",)


async def topics_of(access: ClusterAccess) -> Mapping[str, TopicInfo]:
    """Returns all topics that the user may see, internal ones too."""
    return await access.cached(
        _METADATA,
        METADATA_S,
        lambda admin: admin.topics(internal=True),
        stale_s=STALE_S,
        cost_max=COST_MAX,
        whole=True,
    )


class DirectorySize(NamedTuple):
    """A log directory in numbers: bytes of its disk (-1: unknown), replicas and their bytes."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: int
    size_bytes: int
    error: ClientError | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What log directories have.

    Attributes:
        by_broker: the directories of each broker that answered.
        missing: why sizes are missing; empty if none are.
        topics: bytes of the leaders of each topic; without leaders known, of the largest replicas.
        partitions: the same by topic and number of the partition; -1: unknown.
    """

    by_broker: Mapping[int, Sequence[DirectorySize]] = field(default_factory=dict)
    missing: str = ""
    topics: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, array[int]] = field(default_factory=dict)

    def of_partition(self, partition: TopicPartition) -> int | None:
        """Returns the bytes of a partition; None if they are unknown."""
        sizes = self.partitions.get(partition.topic, ())
        known = partition.partition < len(sizes) and sizes[partition.partition] >= 0
        return sizes[partition.partition] if known else None


async def sizes_of(access: ClusterAccess) -> Sizes:
    """Returns sizes by log directory; without the right DESCRIBE on the cluster, or while the first answer is
    on its way, why there are none.
    """
    asked = access.cached(_SIZES, SIZES_S, _sizes, stale_s=STALE_S, cost_max=COST_MAX, whole=True)
    try:
        return await asyncio.wait_for(asked, PATIENCE_S)
    except TimeoutError:
        return Sizes(missing="Sizes are being fetched: load the page again in a moment.")


async def warm(access: ClusterAccess) -> None:
    """Fetches what every page needs before the first page is opened. A cluster that is away is not an error:
    pages say so.
    """
    with contextlib.suppress(ClientError):
        await topics_of(access)
        await sizes_of(access)


def _sizes(admin: Admin) -> Sizes:
    missing = ""

    def each() -> Iterator[tuple[int, Sequence[LogDir]]]:
        nonlocal missing
        for broker in admin.describe_cluster().brokers:
            try:
                yield broker.id, admin.describe_log_dirs_of(broker.id)
            except (AuthorizationError, UnsupportedApiError):
                raise
            except ClientError as error:
                missing = f"Broker {broker.id} does not report its log directories: {error}"

    try:
        found = sizes_from(each())
    except (AuthorizationError, UnsupportedApiError) as error:
        return Sizes(missing=f"Sizes need the right DESCRIBE on the cluster: {error}")
    return replace(found, missing=missing)


def sizes_from(brokers: Iterable[tuple[int, Sequence[LogDir]]]) -> Sizes:
    """Returns the directories of brokers in numbers, each broker's before the next is asked."""
    found: dict[int, Sequence[DirectorySize]] = {}
    partitions: dict[str, array[int]] = {}
    for id, directories in brokers:
        found[id] = [_in_numbers(each, partitions) for each in directories]
    topics = {name: sum(size for size in sizes if size > 0) for name, sizes in partitions.items()}
    return Sizes(found, "", topics, partitions)


def _in_numbers(directory: LogDir, partitions: dict[str, array[int]]) -> DirectorySize:
    """Returns a directory without its replicas; notes the largest one of each partition."""
    total = 0
    for (topic, number), replica in directory.replicas.items():
        total += replica.size_bytes
        if replica.is_future:
            continue
        sizes = partitions.setdefault(topic, array("q"))
        if number >= len(sizes):
            sizes.extend([-1] * (number + 1 - len(sizes)))
        sizes[number] = max(sizes[number], replica.size_bytes)
    return DirectorySize(
        directory.path,
        directory.total_bytes,
        directory.usable_bytes,
        len(directory.replicas),
        total,
        directory.error,
    )


async def topic_configs_of(
    access: ClusterAccess, topics: Sequence[str], names: Sequence[str]
) -> Mapping[str, Mapping[str, str | None]]:
    """Returns configs of some topics by name of the config and topic; none that the user may not see."""
    if not topics:
        return {name: {} for name in names}

    def ask(admin: Admin) -> dict[str, dict[str, str | None]]:
        return {name: admin.topic_configs(topics, name) for name in names}

    key = ("configs of topics", tuple(topics), tuple(names))
    return await access.cached(key, CONFIGS_S, ask, stale_s=STALE_S, cost_max=COST_MAX)


def forget_topics(access: ClusterAccess) -> None:
    """Drops what is cached of topics, after a change."""
    for prefix in (_METADATA, _SIZES, ("configs of topics",), ("topic",)):
        access.forget(*prefix)


def refusal(error: Exception) -> str:
    """Returns what a page says about a part of it that the cluster refused."""
    if isinstance(error, AuthorizationError):
        return f"The signed-in user lacks a right for this: {error}"
    if isinstance(error, BrokerError):
        return f"The cluster refused: {error}"
    return str(error)
