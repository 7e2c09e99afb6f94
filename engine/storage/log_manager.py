"""Manages the partition logs of this broker: opens, serves, configures and retires them."""

import asyncio
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from typing import Final, NamedTuple

from bowstring._native.disk.directory_health import sync_file_system
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage, TopicImage
from bowstring.engine.parallel import run_on_threads, threads_for
from bowstring.engine.storage import lost_logs
from bowstring.engine.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    sync_directory,
    write_offsets,
)
from bowstring.engine.storage.damage import report_findings
from bowstring.engine.storage.directory_wal import sync_logs
from bowstring.engine.storage.durability import Durability
from bowstring.engine.storage.found_logs import (
    Future,
    PartitionKey,
    Places,
    assigned_id,
    find_places,
    where_to_open,
)
from bowstring.engine.storage.leaving_logs import LeavingLogs
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    LogDirectory,
    partition_directory,
)
from bowstring.engine.storage.log_opener import LogOpener
from bowstring.engine.storage.new_logs import NewLog, create_all, take_back_all
from bowstring.engine.storage.retired_directories import RetiredDirectories
from bowstring.protocol.errors import Errors

# Opening this many logs blocks the control thread for about a millisecond; larger sets go to another thread.
_INLINE_LOGS: Final = 4
_NONE: Final[frozenset[int]] = frozenset()
# Work for one thread: this many logs are opened or created without the GIL.
_LOGS_AT_ONCE: Final = 128
# The reactors stop while this many partitions come into their table.
_SERVED_AT_ONCE: Final = 256
_REMOVAL: Final = "a deleted partition"
"""Partitions are removed for this long before others have their turn."""


class _Opening(NamedTuple):
    """Partitions that a thread opens: all with one config; in one home, or each as it is found."""

    home: LogDirectory | None
    config: dict[str, int]
    items: list[tuple[TopicImage, int]]


class LogManager:
    """Every partition log of the broker, by topic and index.

    An idle partition costs one PartitionLog and one list slot.

    Attributes:
        unfinished: Moves of partitions between directories that were in progress when the broker stopped.
        lost: Partitions whose logs were gone at start. Recovery points say so on disk until it is emptied.
        control_writes: Appends that the control thread made itself, for housekeeping.
        when_replaced: Called with topic, index and log when another log replaces a partition's log.
        set_min_in_sync: Sets min.insync.replicas of a partition.
    """

    def __init__(
        self, directories: LogDirectories, configs: BrokerConfigs, plane: DataPlane, node_id: int
    ) -> None:
        self._directories = directories
        self._configs = configs
        self._plane = plane
        self._node_id = node_id
        self._logs: dict[str, list[PartitionLog | None]] = {}
        self._offline: dict[str, set[int]] = {}
        # directories in which the new names of removed partitions are not durable yet
        self._renamed_in: set[LogDirectory] = set()
        # the supply thread of a write-ahead log also writes recovery points
        self._writing = threading.Lock()
        self._written: dict[tuple[LogDirectory, str], dict[PartitionKey, int]] = {}
        # logs that a move has replaced and whose directories are not renamed yet
        self._leaving = LeavingLogs()
        self._read_high_watermarks: dict[LogDirectory, Mapping[PartitionKey, int]] = {}
        self.unfinished: dict[PartitionKey, Future] = {}
        self.lost: list[PartitionKey] = []
        self.retired = RetiredDirectories()
        self.control_writes = 0
        self.when_replaced: Callable[[str, int, PartitionLog], None] = lambda topic, index, log: None
        self.set_min_in_sync: Callable[[str, int, int], None] = lambda topic, index, least: None
        self.durability = Durability(configs, plane, self._checkpoint_recovery)
        self.durability.when_failed = directories.wal_failed

    # ------------------------------------------------------------ lookup

    @property
    def writes(self) -> int:
        """A number that grows with every append: of producers, from a leader, and of the control thread."""
        counters = self._plane.counters()
        return int(counters["produce"]["requests"] + counters["followed_bytes"] + self.control_writes)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Returns the log of a partition, or None when this broker has none."""
        logs = self._logs.get(topic)
        return logs[partition] if logs is not None and 0 <= partition < len(logs) else None

    def of_topic(self, topic: str) -> list[PartitionLog | None]:
        """Returns the logs of a topic by index; None for partitions that this broker does not hold."""
        return self._logs.get(topic, [])

    def __iter__(self) -> Iterator[tuple[str, int, PartitionLog]]:
        for topic, logs in list(self._logs.items()):
            for index, log in enumerate(logs):
                if log is not None:
                    yield topic, index, log

    def is_offline(self, topic: str, partition: int) -> bool:
        """Returns whether a partition of this broker accepts no writes, because its log or its directory has
        failed.
        """
        if partition in self._offline.get(topic, ()):
            return True
        log = self.get(topic, partition)
        return log is not None and log.failed

    def is_missing(self, topic: str, partition: int) -> bool:
        """Returns whether a partition of this broker cannot be read either, because its directory could not
        be opened.
        """
        return partition in self._offline.get(topic, ())

    def offline_of(self, topic: str) -> tuple[Set[int], Set[int]]:
        """Returns the partitions of a topic that accept no writes but can be read, and those that cannot be
        read.
        """
        missing = self._offline.get(topic, _NONE)
        if self._directories.all_online:
            return _NONE, missing
        return {i for i, log in enumerate(self.of_topic(topic)) if log is not None and log.failed}, missing

    @property
    def all_online(self) -> bool:
        """Whether no partition is in a log directory that has failed."""
        return not self._offline and self._directories.all_online

    @property
    def offline_count(self) -> int:
        """Number of partitions that accept no writes."""
        return sum(map(len, self._offline.values())) + sum(log.failed for _, _, log in self)

    def counts(self) -> Counter[LogDirectory]:
        """Number of partitions in each directory."""
        return Counter(self._directories.of(log) for _, _, log in self)

    # ------------------------------------------------------------ opening

    def open_all(self, image: ClusterImage, threads: int) -> dict[PartitionKey, bytes]:
        """Opens and serves every partition that the image assigns to this broker: as a follower until its
        role is known, with the high watermark that was written last.

        Returns:
            The directory ids of partitions found in another directory than the image says.

        Raises:
            DataDirectoryError, OSError, LogError: A log could not be opened; the message names its directory.
        """
        places = find_places(self._directories, image, self._node_id)
        opener = LogOpener(self._directories, places)
        self._retire_strays(places)
        topics = list(image.topics.values())
        for topic in topics:
            self._logs[topic.name] = [None] * len(topic.partitions)
        work = [(topic, index) for topic in topics for index in self._own(topic, 0)]
        elsewhere: dict[PartitionKey, bytes] = {}

        def opened(topic: TopicImage, index: int, log: PartitionLog | None) -> None:
            self._logs[topic.name][index] = log
            if log is None:
                self._offline.setdefault(topic.name, set()).add(index)
                return
            home = self._directories.of(log)
            opener.note_opened(home, (topic.name, index), log)
            if home.directory_id != assigned_id(topic, index, self._node_id):
                elsewhere[topic.name, index] = home.directory_id

        def open_some(task: _Opening) -> None:
            home, config, items = task
            if home is not None:
                for (topic, index), log in zip(items, self._open_plain(opener, *task), strict=True):
                    opened(topic, index, log)
                return
            for topic, index in items:
                opened(topic, index, self._open(opener, places, topic, index, config))

        lost_logs.mark(self._directories, opener, places, work, self._node_id)
        tasks = self._openings(opener, places, work, image)
        run_on_threads(open_some, tasks, min(threads_for(len(work), threads), max(1, len(tasks))))
        self.unfinished = opener.unfinished
        self._written = opener.checkpoints()
        self._replay_wals(topics, image)
        self.lost = opener.lost(self.get)
        unclean = not all(home.was_clean for home in self._directories.opened)
        if unclean or opener.is_superseded:
            self._checkpoint_recovery()
        self.durability.open(home.path for home in self._directories.opened)
        for topic in topics:
            self._serve(topic, range(len(topic.partitions)), image)
        if self._offline:
            event_log.error(
                "partitions are offline because their log directory is offline; repair the directory, or "
                "name it in log.dirs, then restart the broker",
                partitions=sum(map(len, self._offline.values())),
                example=next(f"{topic}-{min(indexes)}" for topic, indexes in self._offline.items()),
            )
        return elsewhere

    def _openings(
        self, opener: LogOpener, places: Places, work: list[tuple[TopicImage, int]], image: ClusterImage
    ) -> list[_Opening]:
        """Divides partitions into tasks for threads: those in assigned directories are opened together."""
        alike: dict[tuple[LogDirectory | None, int], _Opening] = {}
        tasks: list[_Opening] = []
        plain = self._directories.all_online
        for topic, index in work:
            config = self._configs.log_config(image.topic_configs(topic.name))
            key = topic.name, index
            home = places.live.get(key) if plain and key not in opener.unfinished else None
            kind = home, id(config) if home is not None else 0
            if kind not in alike or len(alike[kind].items) == _LOGS_AT_ONCE or kind[0] is None:
                alike[kind] = _Opening(home, config, [])
                tasks.append(alike[kind])
            alike[kind].items.append((topic, index))
        return tasks

    def _open_plain(
        self,
        opener: LogOpener,
        home: LogDirectory | None,
        config: dict[str, int],
        items: list[tuple[TopicImage, int]],
    ) -> list[PartitionLog | None]:
        """Opens partitions where they were found; None for those that are offline."""
        assert home is not None
        found: list[PartitionLog | None] = []
        keys = [(topic.name, index) for topic, index in items]
        for (topic, index), log in zip(items, opener.open_many(home, keys, config), strict=True):
            if isinstance(log, LogError):
                if not (home.health.failed and self._directories.online):
                    raise log
                found.append(None)
            else:
                self._look_at_opened(topic, index, log)
                found.append(log)
        return found

    def _look_at_opened(self, topic: TopicImage, index: int, log: PartitionLog) -> None:
        """Reports the findings of opening, and writes a partition.metadata that a crash has lost."""
        name, home = partition_directory(topic.name, index), self._directories.of(log)
        report_findings(name, log)
        if not home.was_clean and home.read_partition_metadata(name) is None:
            home.write_partition_metadata(name, topic.id)

    def _open(
        self, opener: LogOpener, places: Places, topic: TopicImage, index: int, config: dict[str, int]
    ) -> PartitionLog | None:
        """Opens a partition found at start, or creates it if a crash prevented that; returns None when
        offline.
        """
        key = topic.name, index
        assigned = assigned_id(topic, index, self._node_id)
        home: LogDirectory | str | None = self._directories.by_id(assigned)
        if key not in places.twice:
            home = where_to_open(self._directories, places, key, assigned)
        if isinstance(home, str):
            return None
        if home is None:
            home = self._directories.by_id(assigned) or self._place(key)
            opener.note_created(home, key)
            return self._make(topic, index, config, home) if home is not None else None
        try:
            log = opener.open(home, key, config)
        except (OSError, LogError):
            if home.health.failed and self._directories.online:
                return None
            raise
        self._look_at_opened(topic, index, log)
        return log

    def _place(self, key: PartitionKey) -> LogDirectory | None:
        return self._directories.place(self.counts(), self._cordoned(), key)

    def _cordoned(self) -> list[str]:
        return [os.path.abspath(path) for path in self._configs.value("cordoned.log.dirs")]

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Returns whether a directory accepts no new partitions (KIP-1066)."""
        return str(directory.path) in self._cordoned()

    def _replay_wals(self, topics: list[TopicImage], image: ClusterImage) -> None:
        """Replays the write-ahead logs after an unclean stop. A partition that has moved since is found in
        its present directory.
        """
        unclean = [home for home in self._directories.opened if not home.was_clean]
        logs = {
            (topic.id, index): log
            for topic in topics
            for index, log in enumerate(self._logs[topic.name])
            if unclean and log is not None
        }
        if unclean:
            committed = [
                key
                for key in logs
                if self.durability.wants_commit(image.topic_configs(image.topics_by_id[key[0]].name))
            ]
            self.durability.recover([home.path for home in unclean], logs, committed)
            self._sync_compacted(topics, image)

    def _sync_compacted(self, topics: list[TopicImage], image: ClusterImage) -> None:
        """Syncs logs with gaps from compaction, in os mode too, so that the gaps lie below the recovery
        points.
        """
        due = []
        for topic in topics:
            if self._configs.log_config(image.topic_configs(topic.name))["compacted"]:
                due += [
                    log
                    for log in self._logs[topic.name]
                    if log is not None and not log.failed and log.recovery_point < log.log_end_offset
                ]
        sync_logs(due)

    async def open_new(self, image: ClusterImage, topics: Sequence[TopicImage]) -> None:
        """Creates and serves the partitions of topics that are assigned here and not open yet.

        Raises:
            OSError, LogError: One could not be created. `unopened` says which are missing; the next call
                tries again.
        """
        if self._any_in_checkpoints(topics):
            # After a crash, checkpoint entries of a deleted topic of this name would be applied to the new
            # one.
            await asyncio.get_running_loop().run_in_executor(None, self.checkpoint(RECOVERY_POINTS))
        work: list[NewLog] = []
        counts = cache(self.counts)  # mostly nothing is new
        for topic in topics:
            work += self._new_logs(image, topic, counts)
        if not work:
            return
        if len(work) <= _INLINE_LOGS:
            failure = create_all(work)
        else:
            failure = await asyncio.get_running_loop().run_in_executor(None, create_all, work)
        # Records acknowledged in these partitions must not be lost together with their directories' names.
        made_in: dict[LogDirectory, list[PartitionLog]] = {}
        for each in work:
            if each.log is not None and each.home is not None:
                made_in.setdefault(each.home, []).append(each.log)
        for home, logs in made_in.items():
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._sync_new, home, logs)
            except OSError as error:
                failure = error
                take_back_all(work, home)
        for topic, group in itertools.groupby(work, lambda each: each.topic):
            new = [each for each in group if each.log is not None or each.home is None]
            self._serve_new(topic, new, image)
            await asyncio.sleep(0)  # others have their turn
        if failure is not None:
            raise failure

    def _new_logs(
        self, image: ClusterImage, topic: TopicImage, counts: Callable[[], Counter[LogDirectory]]
    ) -> list[NewLog]:
        """Returns the partitions of a topic that are to be created, with their directories. `counts` returns
        the partitions in each directory, also those that are to be created.
        """
        logs = self._logs.setdefault(topic.name, [])
        logs.extend([None] * (len(topic.partitions) - len(logs)))
        offline = self._offline.get(topic.name, _NONE)
        indexes = [each for each in self._own(topic, 0) if logs[each] is None and each not in offline]
        if not indexes:
            return []
        config = self._configs.log_config(image.topic_configs(topic.name))
        return [NewLog(topic, index, config, self._home_of_new(topic, index, counts)) for index in indexes]

    def unopened(self, topic: TopicImage) -> list[int]:
        """Returns the partitions of a topic that are assigned here and could not be created yet."""
        logs, offline = self._logs.get(topic.name, []), self._offline.get(topic.name, _NONE)
        return [
            each
            for each in self._own(topic, 0)
            if each not in offline and (each >= len(logs) or logs[each] is None)
        ]

    def _serve_new(self, topic: TopicImage, work: list[NewLog], image: ClusterImage) -> None:
        for each in work:
            self._logs[topic.name][each.index] = each.log
            self._directories.preferred.pop((topic.name, each.index), None)
            if each.home is None:
                self._offline.setdefault(topic.name, set()).add(each.index)
        self._serve(topic, [each.index for each in work], image)

    def _sync_new(self, home: LogDirectory, logs: list[PartitionLog]) -> None:
        """Makes new partitions durable: directory names and partition.metadata."""

        def sync() -> None:
            if len(logs) > _INLINE_LOGS:
                sync_file_system(home.path)
                return
            for log in logs:
                home.sync_partition_metadata(os.path.basename(log.directory))
            sync_directory(home.path)

        self._directories.guard(home, "syncing new partitions", sync)

    def _home_of_new(
        self, topic: TopicImage, index: int, counts: Callable[[], Counter[LogDirectory]]
    ) -> LogDirectory | None:
        home = self._directories.by_id(assigned_id(topic, index, self._node_id))
        if home is None:
            home = self._directories.place(counts(), self._cordoned(), (topic.name, index))
        if home is None or home.health.failed:
            return None
        counts()[home] += 1
        return home

    def _own(self, topic: TopicImage, first: int) -> list[int]:
        return [
            first + i
            for i, partition in enumerate(topic.partitions[first:])
            if self._node_id in partition.replicas
        ]

    def _any_in_checkpoints(self, topics: Iterable[TopicImage]) -> bool:
        """Returns whether a topic that does not exist here has entries in the checkpoints on disk."""
        new = {topic.name for topic in topics if topic.name not in self._logs}
        return bool(new) and any(name in new for offsets in self._written.values() for name, _ in offsets)

    def _make(
        self, topic: TopicImage, index: int, config: dict[str, int], home: LogDirectory
    ) -> PartitionLog:
        new = NewLog(topic, index, config, home)
        failure = create_all([new])
        if failure is not None:
            raise failure
        assert new.log is not None
        return new.log

    def _retire_strays(self, places: Places) -> None:
        """Renames directories that belong to no partition of the image, and schedules deleted ones for
        unlinking.
        """
        for home, topic_name, index in places.strays:
            name = partition_directory(topic_name, index)
            event_log.warning(
                "a directory belongs to no partition and is renamed with the suffix -stray; delete it if "
                "its records are not needed",
                directory=name,
            )
            home.retire(topic_name, index, STRAY_SUFFIX)
        now = time.monotonic()
        for home in self._directories.opened:
            for name in home.deleted_directories():
                self.retired.add(str(home.path / name), now)

    def _serve(self, topic: TopicImage, indexes: Iterable[int], image: ClusterImage) -> None:
        overrides = image.topic_configs(topic.name)
        min_insync = self._configs.topic_value("min.insync.replicas", overrides)
        is_committed = self.durability.wants_commit(overrides)
        logs = self._logs[topic.name]
        offline = self._offline.get(topic.name, _NONE)
        served: list[tuple[int, PartitionLog | None, int, int, int, bool]] = []
        for index in indexes:
            log = logs[index]
            if log is None and index not in offline:
                continue
            partition = topic.partitions[index]
            if log is not None:
                if is_committed:
                    self.durability.join(topic.id, index, log)
                end_offset = log.log_end_offset
                if end_offset > 0:
                    log.advance_high_watermark(self._first_high_watermark(topic.name, index, log, end_offset))
            served.append(
                (
                    index,
                    log,
                    partition.leader_epoch,
                    partition.min_in_sync(min_insync),
                    len(partition.in_sync),
                    False,
                )
            )
        for at in range(0, len(served), _SERVED_AT_ONCE):
            some = served[at : at + _SERVED_AT_ONCE]
            self._plane.add_partitions(topic.name, topic.id, some, replicated=True)

    def _first_high_watermark(self, topic: str, index: int, log: PartitionLog, end_offset: int) -> int:
        return min(end_offset, self._high_watermarks(self._directories.of(log)).get((topic, index), 0))

    def _high_watermarks(self, home: LogDirectory) -> Mapping[PartitionKey, int]:
        """Returns the high watermarks that were written before the start."""
        if home not in self._read_high_watermarks:
            self._read_high_watermarks[home] = read_offsets(home.path / HIGH_WATERMARKS)
        return self._read_high_watermarks[home]

    # ------------------------------------------------------------ changes

    async def configure(self, topic: str, image: ClusterImage) -> None:
        """Applies a topic's configs to its logs. The image may be newer than the logs: it may lack the topic,
        or have another one of that name with fewer partitions; the change that says so follows.
        """
        found = image.topics.get(topic)
        if found is None:
            return
        overrides = image.topic_configs(topic)
        config = self._configs.log_config(overrides)
        min_insync = self._configs.topic_value("min.insync.replicas", overrides)
        for index, (log, partition) in enumerate(zip(self.of_topic(topic), found.partitions, strict=False)):
            if log is not None:
                log.configure(config)
                self.set_min_in_sync(topic, index, partition.min_in_sync(min_insync))
        for index, log in enumerate(self.of_topic(topic)):
            if log is not None:
                await self._switch_durability(topic, index, overrides)

    async def _switch_durability(self, topic: str, index: int, overrides: dict[str, str]) -> None:
        log = self.get(topic, index)
        while log is not None:
            try:
                await self.durability.switch(topic, index, log, overrides)
            except (LogError, OSError) as error:
                event_log.error(
                    "a partition could not change between os and commit mode; check the disk, then "
                    "restart the broker",
                    partition=partition_directory(topic, index),
                    detail=str(error),
                )
            found = self.get(topic, index)
            log = found if found is not log else None  # the partition moved meanwhile: switch the new log too

    async def configure_all(self, image: ClusterImage) -> None:
        """Applies configs to every topic after a broker config changed."""
        for name in list(self._logs):
            await self.configure(name, image)

    def remove_partition(self, topic: str, index: int, delete_delay_ms: int) -> None:
        """Renames the directory of a partition that the data plane no longer serves; it is unlinked after
        the delay.
        """
        log, self._logs[topic][index] = self._logs[topic][index], None
        self._offline.get(topic, set()).discard(index)
        self._retire_removed(topic, index, log, time.monotonic() + delete_delay_ms / 1000)

    def forget_topic(self, topic: str) -> None:
        """Forgets a topic whose partitions have been removed one by one."""
        self._logs.pop(topic, None)
        self._offline.pop(topic, None)

    def _retire_removed(self, topic: str, index: int, log: PartitionLog | None, due: float) -> None:
        if log is None:
            return
        moving = self._leaving.remove((topic, index), log, due)
        if moving is None:
            self._retire_log(topic, index, log, due)
            return
        for each in moving.logs:  # `sync_removed` renames their directories
            self.durability.discard(each)

    def _retire_log(self, topic: str, index: int, log: PartitionLog, due: float) -> None:
        home = self._directories.of(log)
        self._renamed_in.add(home)
        path = str(home.path / home.retired_name(topic, index, DELETED_SUFFIX))
        self.durability.discard(log)  # first: a checkpoint finds no directory of the old name
        if self._directories.guard(
            home, "renaming a deleted partition", partial(os.rename, log.directory, path)
        ):
            self.retired.add(path, due)
        log.mark_deleted(path)

    async def sync_removed(self) -> None:
        """Makes the new names of removed partitions durable, before another topic may use the old names.

        Otherwise power loss could restore the directory of a deleted topic under the name of a new one.
        Removed partitions that were being moved get theirs here, once the move has ended.
        """
        for (topic, index), logs, due, _ in await self._leaving.ended():
            for log in logs:
                if not log.directory.endswith(DELETED_SUFFIX):  # else the move has renamed it
                    background.call_all([self._retire_log], topic, index, log, due, doing=_REMOVAL)
        while self._renamed_in:
            home = self._renamed_in.pop()
            sync = partial(
                self._directories.guard, home, "syncing its names", partial(sync_directory, home.path)
            )
            try:
                await asyncio.get_running_loop().run_in_executor(None, sync)
            except BaseException:
                self._renamed_in.add(home)
                raise

    def replaced(self, topic: str, index: int, log: PartitionLog, over: asyncio.Event) -> None:
        """Registers the log that has replaced a partition's log in the data plane.

        Args:
            over: Set once no other thread renames the directories of the two.
        """
        old, self._logs[topic][index] = self._logs[topic][index], log
        if old is not None:
            self._leaving.add((topic, index), old, over)
        self.when_replaced(topic, index, log)

    def left(self, topic: str, index: int) -> None:
        """Records that a replaced log's directory no longer has the partition's name."""
        self._leaving.discard((topic, index))

    # ------------------------------------------------------------ checkpoints and the end

    def checkpoint(self, name: str) -> Callable[[], None]:
        """Returns work that writes one of the offset checkpoints in each directory where it changed. Run it
        on another thread.
        """
        return partial(self._checkpoint, name)

    def _checkpoint(self, name: str) -> None:
        """Writes a checkpoint. Reads the offsets under the lock, so that a file never goes back to older
        offsets.
        """
        with self._writing:
            offsets = self._offsets(name)
            if name == RECOVERY_POINTS:
                # DeleteRecords raises both. With the recovery point alone, recovery would skip records that
                # were never synced.
                self._write_checkpoints(LOG_START_OFFSETS, self._offsets(LOG_START_OFFSETS))
            self._write_checkpoints(name, offsets)

    def _offsets(self, name: str) -> dict[LogDirectory, dict[PartitionKey, int]]:
        value = _CHECKPOINTS[name]
        offsets: dict[LogDirectory, dict[PartitionKey, int]] = {home: {} for home in self._directories.opened}
        for topic, index, log in self:
            offsets[self._directories.of(log)][topic, index] = value(log)
        # After a crash the partition may be in its old directory.
        for (topic, index), old in self._leaving:
            home, new = self._directories.of(old), self.get(topic, index)
            if home in offsets and new is not None:
                kept = new if name == LOG_START_OFFSETS else old
                offsets[home].setdefault((topic, index), value(kept))
        return offsets

    def _checkpoint_recovery(self) -> None:
        self._checkpoint(RECOVERY_POINTS)

    def sync_rolled(self, log: PartitionLog) -> int:
        """Syncs the closed segments of a log and writes its recovery point to the checkpoint file.

        Compaction needs this before it makes gaps: above a recovery point, recovery takes a gap for lost
        records. Slow: not for the control thread.

        Returns:
            The recovery point: offsets below it may have gaps.

        Raises:
            LogError: The log could not be synced, or the file could not be written.
        """
        point = int(log.flush(include_active=False))
        self._checkpoint_recovery()
        if log.failed:
            raise LogError(Errors.KAFKA_STORAGE_ERROR.code, f"{log.directory} is out of service")
        return point

    def _write_checkpoints(self, name: str, offsets: dict[LogDirectory, dict[PartitionKey, int]]) -> None:
        for home, all_offsets in offsets.items():
            # Like Kafka, leaves out log starts that equal the first segment's base offset.
            skips_zero = name == LOG_START_OFFSETS
            found = {key: offset for key, offset in all_offsets.items() if offset > 0 or not skips_zero}
            kept = {key for key in self.lost if key in found and name == RECOVERY_POINTS}
            if kept and (home, name) not in self._written:
                continue  # the next start, too, has to find that the directory was emptied
            found |= {key: self._written[home, name].get(key, 0) for key in kept}
            write = partial(write_offsets, home.path / name, found, may_be_missing=skips_zero)
            is_new = found != self._written.get((home, name))
            if is_new and self._directories.guard(home, f"writing {name}", write):
                self._written[home, name] = found

    def close(self, threads: int) -> None:
        """Closes every log with a snapshot of producer state. Afterwards all records are on the medium.

        Raises:
            OSError, LogError: A file could not be written; the next start must recover.
        """
        self.durability.stop()
        each_log = [log for _, _, log in self]
        ends: dict[LogDirectory, dict[PartitionKey, int]] = {home: {} for home in self._directories.opened}
        for topic, index, log in self:
            end = int(log.recovery_point if log.failed else log.log_end_offset)
            ends[self._directories.of(log)][topic, index] = end
        failures: list[Exception] = []
        run_on_threads(partial(_close, failures), each_log, threads_for(len(each_log), threads))
        # One sync of the file system replaces several syncs for each of thousands of logs.
        for home in self._directories.opened:
            self._directories.guard(home, "syncing its file system", partial(sync_file_system, home.path))
        with self._writing:
            self._write_checkpoints(RECOVERY_POINTS, ends)
        self._checkpoint(LOG_START_OFFSETS)
        self._checkpoint(HIGH_WATERMARKS)
        self._logs.clear()
        # Producer state and indexes of a failed log are not what a clean shutdown promises.
        for log in each_log:
            if log.failed:
                failure = f"{log.directory} has failed: {log.stats()['failure']}"
                failures.append(LogError(Errors.KAFKA_STORAGE_ERROR.code, failure))
                self._directories.unclean.add(self._directories.of(log))
        # The same applies to logs that a move has replaced and whose directories still have the partitions'
        # names.
        self._directories.unclean.update(self._directories.of(log) for _, log in self._leaving)
        self.durability.close(is_clean=self._directories.is_clean)
        if failures:
            raise failures[-1]


def _close(failures: list[Exception], log: PartitionLog) -> None:
    """Closes one log. A failure does not keep the others from closing."""
    try:
        log.close(sync=False)
    except LogError as error:
        failures.append(error)


_CHECKPOINTS: Final[dict[str, Callable[[PartitionLog], int]]] = {
    RECOVERY_POINTS: lambda log: int(log.recovery_point),
    LOG_START_OFFSETS: lambda log: int(log.log_start_offset),
    HIGH_WATERMARKS: lambda log: int(log.high_watermark),
}
