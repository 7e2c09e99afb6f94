"""Asks the cluster what pages share: topics, sizes, configs; each at the pace that its cost allows."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bowstring.clients.errors import AuthorizationError, BrokerError, ClientError, UnsupportedApiError
from bowstring.clients.records import TopicInfo, TopicPartition
from bowstring.console.cluster_access import QUICK_S, ClusterAccess

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import LogDir

COST_MAX = 0.005
"""Share of the time that the console lets the cluster work on one kind of question."""
METADATA_S = 5.0
SIZES_S = 15.0
CONFIGS_S = 30.0
STALE_S = 600.0
PIECE = 5000
"""Partitions whose sizes are asked for at a time."""
SLOWLY = 0.005
"""Share of the time that the cluster works on sizes that are known already, but old."""
PATIENCE_S = 0.1
"""How long a page waits for what it can do without."""
_METADATA, _SIZES = ("metadata",), ("log dirs",)


async def topics_of(access: ClusterAccess) -> Mapping[str, TopicInfo]:
    """Returns all topics that the user may see, internal ones too."""
    return await access.cached(
        _METADATA,
        METADATA_S,
        read_topics,
        stale_s=STALE_S,
        cost_max=COST_MAX,
        whole=True,
    )


_with_all: weakref.WeakSet[Admin] = weakref.WeakSet()


def read_topics(admin: Admin) -> dict[str, TopicInfo]:
    """Returns all topics, internal ones too; notes that the client has their metadata."""
    found = admin.topics(internal=True)
    _with_all.add(admin)
    return found


def has_all_topics(admin: Admin) -> bool:
    """Whether a client has the metadata of all topics, and need not fetch that of each."""
    return admin in _with_all


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

    async def ask() -> Sizes:
        return await _sizes(access)

    try:
        return await asyncio.wait_for(access.cached(_SIZES, SIZES_S, ask, stale_s=STALE_S), PATIENCE_S)
    except TimeoutError:
        return Sizes(missing="Sizes are being fetched: load the page again in a moment.")


async def warm(access: ClusterAccess) -> None:
    """Fetches what every page needs before the first page is opened. A cluster that is away is not an error:
    pages say so.
    """
    with contextlib.suppress(ClientError):
        await topics_of(access)
        await sizes_of(access)


async def _sizes(access: ClusterAccess) -> Sizes:
    """Sums sizes up in small pieces. A round that took long is followed by slow ones, while pages show the
    last sizes.
    """
    missing = ""
    sums = SizeSums()
    last: dict[str, float] = access.shared(_SIZES, dict)
    began = time.monotonic()
    slowly = last.get("took", 0.0) > QUICK_S
    try:
        topics = await topics_of(access)
        for broker in (await access.admin(lambda admin: admin.describe_cluster())).brokers:
            try:
                for piece in _pieces(topics, broker.id):
                    asked_at = time.monotonic()
                    await access.whole(_add_sizes, sums, broker.id, piece)
                    if slowly and piece is not None:
                        await asyncio.sleep((time.monotonic() - asked_at) / SLOWLY)
            except (AuthorizationError, UnsupportedApiError):
                raise
            except ClientError as error:
                missing = f"Broker {broker.id} does not report its log directories: {error}"
    except (AuthorizationError, UnsupportedApiError) as error:
        return Sizes(missing=f"Sizes need the right DESCRIBE on the cluster: {error}")
    last["took"] = time.monotonic() - began
    return sums.sizes(missing)


def _pieces(topics: Mapping[str, TopicInfo], broker: int) -> Iterator[list[TopicPartition] | None]:
    """Yields the partitions with replicas on a broker, some at a time; None, for all, if they are few."""
    if sum(len(topic.partitions) for topic in topics.values()) <= PIECE:
        yield None
        return
    piece: list[TopicPartition] = []
    for name, topic in topics.items():
        for number, info in topic.partitions.items():
            if broker in info.replicas:
                piece.append(TopicPartition(name, number))
        if len(piece) >= PIECE:
            yield piece
            piece = []
    if piece:
        yield piece


def _add_sizes(admin: Admin, sums: SizeSums, broker: int, piece: list[TopicPartition] | None) -> None:
    sums.add(broker, admin.describe_log_dirs_of(broker, piece))


class SizeSums:
    """Adds up what brokers answer, some replicas at a time."""

    def __init__(self) -> None:
        self._found: dict[int, dict[str, DirectorySize]] = {}
        self._partitions: dict[str, array[int]] = {}

    def add(self, broker: int, directories: Sequence[LogDir]) -> None:
        """Takes an answer of a broker: none of its replicas was in an earlier one."""
        of_broker = self._found.setdefault(broker, {})
        for each in directories:
            before = of_broker.get(each.path)
            size = self._size(each)
            if before is not None:
                size = size._replace(
                    replicas=before.replicas + size.replicas, size_bytes=before.size_bytes + size.size_bytes
                )
            of_broker[each.path] = size

    def _size(self, directory: LogDir) -> DirectorySize:
        """Returns a directory without its replicas; notes the largest one of each partition."""
        total = 0
        for (topic, number), replica in directory.replicas.items():
            total += replica.size_bytes
            if replica.is_future:
                continue
            sizes = self._partitions.setdefault(topic, array("q"))
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

    def sizes(self, missing: str) -> Sizes:
        """Returns all of it; `missing` says why something is not there."""
        topics = {name: sum(size for size in sizes if size > 0) for name, sizes in self._partitions.items()}
        by_broker = {broker: list(each.values()) for broker, each in self._found.items()}
        return Sizes(by_broker, missing, topics, self._partitions)


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
    access.shared(_SIZES, dict).clear()


def refusal(error: Exception) -> str:
    """Returns what a page says about a part of it that the cluster refused."""
    if isinstance(error, AuthorizationError):
        return f"The signed-in user lacks a right for this: {error}"
    if isinstance(error, BrokerError):
        return f"The cluster refused: {error}"
    return str(error)
