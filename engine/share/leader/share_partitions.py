"""Keeps the share partitions of the partitions that this broker leads, and the share sessions (KIP-932)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.server.log_waiters import LogWaiters
from bowstring.engine import background
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import GROUP_RESOURCE, ImageSource
from bowstring.engine.share.leader.dead_letters import DeadLetters
from bowstring.engine.share.leader.settings import ShareSettings, reset_timestamp, share_settings
from bowstring.engine.share.leader.share_partition import LedSharePartition
from bowstring.engine.share.persister.interface import Persister, SharePartitionKey
from bowstring.engine.share.sessions import SessionKey, SessionPartition, ShareSession, ShareSessions
from bowstring.engine.storage.disk_reads import DiskReads
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.features import SHARE_VERSION

T = TypeVar("T")

LeaderLog = Callable[[str, int], PartitionLog]
"""Returns the log of a partition that this broker leads; raises KafkaError."""

_SETTINGS_KEPT: Final = 10_000


class Slices(Protocol):
    """Shares the control thread's time, as engine.requests.time_slices does."""

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yields the items, with rests between them."""


class SharePartitions:
    """The share partitions and sessions of a broker. Used on the control loop.

    A share partition is loaded by the first fetch. It is dropped when this broker no longer leads,
    when the persister fences it, and when the last session of its group ends with its connection.

    Attributes:
        sessions: The share sessions.
        time_slices: Shares the control thread's time.
        disk_reads: Threads that read from the disk.
        dead_letters: Copies records that groups give up.
    """

    def __init__(
        self,
        configs: BrokerConfigs,
        metadata: ImageSource,
        plane: DataPlane,
        persister: Persister,
        *,
        leader_log: LeaderLog,
        time_slices: Slices,
        disk_reads: DiskReads,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self.sessions = ShareSessions(configs.value("group.share.max.share.sessions"))
        self.time_slices = time_slices
        self.disk_reads = disk_reads
        self._configs = configs
        self._metadata = metadata
        self._plane = plane
        self._persister = persister
        self._leader_log = leader_log
        self.dead_letters = dead_letters
        self._partitions: dict[SharePartitionKey, LedSharePartition] = {}
        self._by_partition: dict[tuple[bytes, int], set[SharePartitionKey]] = {}
        self._ending: dict[SharePartitionKey, LedSharePartition] = {}
        self._settings: dict[str, tuple[tuple[int, dict[str, str]], ShareSettings]] = {}
        self._common_settings: ShareSettings | None = None
        self._waiters: LogWaiters | None = None
        self._log_waits: dict[int, tuple[SessionPartition, Callable[[SessionPartition], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._when_ended: dict[int, list[Callable[[], None]]] = {}

    # ------------------------------------------------------------ partitions

    def settings(self, group_id: str) -> ShareSettings:
        """Returns a group's configs; the same object while they stay as they are."""
        image = self._metadata.image
        own = image.resource_configs(GROUP_RESOURCE, group_id)
        if not own:
            # One for all of them, because a client can name any number of groups.
            if self._common_settings is None:
                self._common_settings = share_settings(group_id, image, self._configs)
            return self._common_settings
        kept = self._settings.get(group_id)
        known = image.features.get(SHARE_VERSION, 0), own
        if kept is None or kept[0] != known:
            if len(self._settings) >= _SETTINGS_KEPT:
                self._settings.clear()
            kept = self._settings[group_id] = (
                (known[0], dict(own)),
                share_settings(group_id, image, self._configs),
            )
        return kept[1]

    @staticmethod
    def member_number(member: SessionKey) -> int:
        """Returns what stands for a member in the in-flight windows; not 0."""
        return hash(member) or 1

    def get(self, group_id: str, wanted: SessionPartition) -> tuple[LedSharePartition, PartitionLog]:
        """Returns a share partition, which may still be loading, and the partition's log.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        key = SharePartitionKey(group_id, wanted.topic_id, wanted.partition)
        found = self._partitions.get(key)
        topic = self._metadata.image.topics_by_id.get(wanted.topic_id)
        try:
            if topic is None:
                raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
            log = self._leader_log(topic.name, wanted.partition)
        except KafkaError:
            if found is not None:
                self.drop(found)
            raise
        epoch = topic.partitions[wanted.partition].leader_epoch
        if found is not None and found.leader_epoch != epoch:
            self.drop(found)
            found = None
        if found is None:
            found = self._add(key, epoch)
            found.load(lambda reset: self._start_offset(log, reset), self._ending.get(key))
        return found, log

    def find(self, group_id: str, topic_id: bytes, partition: int) -> LedSharePartition | None:
        """Returns a share partition that is loaded and led."""
        found = self._partitions.get(SharePartitionKey(group_id, topic_id, partition))
        return found if found is not None and found.is_active else None

    def in_flight(self) -> Iterator[tuple[str, str, int, int]]:
        """Yields group, topic, partition and records in flight of the share partitions that are led here."""
        for key, partition in self._partitions.items():
            topic = self._metadata.image.topics_by_id.get(key.topic_id)
            if topic is not None and partition.is_active:
                yield key.group_id, topic.name, key.partition, partition.window.in_flight

    def _add(self, key: SharePartitionKey, epoch: int) -> LedSharePartition:
        added = LedSharePartition(
            key, epoch, self._persister, lambda: self.settings(key.group_id), when_fenced=self.drop
        )
        added.dead_letters = self.dead_letters
        self._partitions[key] = added
        self._by_partition.setdefault((key.topic_id, key.partition), set()).add(key)
        return added

    async def _start_offset(self, log: PartitionLog, offset_reset: str) -> int:
        """Returns where share.auto.offset.reset says to start."""
        if offset_reset == "earliest":
            return log.log_start_offset
        if offset_reset == "latest":
            return log.high_watermark
        timestamp = reset_timestamp(offset_reset, time.time_ns() // 1_000_000)
        found = await self.disk_reads.run(log.offset_for_timestamp, timestamp)
        return log.high_watermark if found is None else min(found[1], log.high_watermark)

    def drop(self, partition: LedSharePartition) -> None:
        """Forgets a share partition; the next fetch loads it again."""
        key = partition.key
        partition.drop()
        if self._partitions.get(key) is not partition:
            return
        del self._partitions[key]
        if partition.is_ending:
            self._ending[key] = partition
            self._spawn(self._end_partition(partition))
        keys = self._by_partition[key.topic_id, key.partition]
        keys.discard(key)
        if not keys:
            del self._by_partition[key.topic_id, key.partition]

    async def _end_partition(self, partition: LedSharePartition) -> None:
        await partition.ended()
        if self._ending.get(partition.key) is partition:
            del self._ending[partition.key]

    def role_changed(self, topic: str, partition: int) -> None:
        """Drops state that a new leader epoch makes invalid. Call it when the data plane has the new role."""
        image = self._metadata.image.topics.get(topic)
        if image is None:
            return
        for key in list(self._by_partition.get((image.id, partition), ())):
            found = self._partitions[key]
            try:
                self._leader_log(topic, partition)
            except KafkaError:
                self.drop(found)
                continue
            if image.partitions[partition].leader_epoch != found.leader_epoch:
                self.drop(found)

    def topic_deleted(self, topic_id: bytes) -> None:
        """Drops the share partitions of a topic."""
        for key in [key for key in self._partitions if key.topic_id == topic_id]:
            self.drop(self._partitions[key])

    # ------------------------------------------------------------ sessions

    async def release(self, session: ShareSession) -> None:
        """Releases the records of an ended session's member. Storing that takes longer than this call."""
        stored = await self._release(session)
        if groups := self.sessions.left_groups(session.connection_id):
            self._spawn(self._drop_groups(stored, groups))

    def connection_ended(self, connection_id: int) -> None:
        """Ends the sessions of a connection, and requests of it that wait."""
        sessions, groups = self.sessions.connection_ended(connection_id)
        for ended in self._when_ended.pop(connection_id, ()):
            ended()
        if groups:
            self._spawn(self._end(sessions, groups))

    @contextmanager
    def connected(self, connection_id: int, ended: Callable[[], None]) -> Iterator[None]:
        """Within the context, calls `ended` when a connection ends; at once if it has ended."""
        if self.sessions.has_ended(connection_id):
            ended()
            yield
            return
        calls = self._when_ended.setdefault(connection_id, [])
        calls.append(ended)
        try:
            yield
        finally:
            calls.remove(ended)
            if not calls:
                self._when_ended.pop(connection_id, None)

    async def _end(self, sessions: list[ShareSession], groups: set[str]) -> None:
        stored: list[asyncio.Future[Error]] = []
        for session in sessions:
            stored += await self._release(session)
        await self._drop_groups(stored, groups)

    async def _drop_groups(self, stored: list[asyncio.Future[Error]], groups: set[str]) -> None:
        """Drops the share partitions of groups without sessions, once released records are stored."""
        if stored:
            await asyncio.wait(stored)
        gone = {group_id for group_id in groups if not self.sessions.has_members(group_id)}
        for key in [key for key in self._partitions if key.group_id in gone]:
            self.drop(self._partitions[key])

    async def _release(self, session: ShareSession) -> list[asyncio.Future[Error]]:
        group_id, number = session.key.group_id, self.member_number(session.key)
        stored: list[asyncio.Future[Error]] = []
        async for each in self.time_slices.each(list(session)):
            if self.sessions.has(session.key):
                break  # The member is back, and what it holds now is its own.
            found = self.find(group_id, each.topic_id, each.partition)
            if found is not None and (done := found.release(number)) is not None:
                stored.append(done)
        return stored

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        background.spawn(work, "share sessions", among=self._tasks)

    # ------------------------------------------------------------ logs

    def wait_for_log(self, wanted: SessionPartition, moved: Callable[[SessionPartition], None]) -> int | None:
        """Calls `moved` once the log has grown, its high watermark moved, or its leader changed. None if the
        partition is not served here. Look at the log again after this call.
        """
        topic = self._metadata.image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return None
        if self._waiters is None:
            self._waiters = LogWaiters(self._plane)
            asyncio.get_running_loop().add_reader(self._waiters.fd, self._wake)
        try:
            number = self._waiters.add(topic.name, wanted.partition)
        except KeyError:
            return None
        self._log_waits[number] = (wanted, moved)
        return number

    def stop_waiting(self, number: int) -> None:
        """Ends a wait."""
        if self._log_waits.pop(number, None) is not None and self._waiters is not None:
            self._waiters.remove(number)

    def _wake(self) -> None:
        assert self._waiters is not None
        for number in self._waiters.take():
            found = self._log_waits.pop(number, None)
            if found is not None:
                found[1](found[0])

    async def stop(self) -> None:
        """Stops everything. Call it before the data plane is freed."""
        running = list(self._tasks)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for partition in [*self._partitions.values(), *self._ending.values()]:
            await partition.stop()
        if self._waiters is not None:
            asyncio.get_running_loop().remove_reader(self._waiters.fd)
            self._waiters.close()
