"""The partition logs of this broker: opened, served by the data plane, configured, retired."""

import asyncio
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import Final

from bowstring._native.dataplane import DataPlane
from bowstring._native.directory_health import is_device_error
from bowstring._native.log import LogError, PartitionLog
from bowstring._native.log_checkpoint import flush_rolled
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    sync_directory,
    sync_file_system,
    write_offsets,
)
from bowstring.engine.broker.damage import report_findings
from bowstring.engine.broker.data_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    DataDirectory,
    partition_directory,
)
from bowstring.engine.broker.durability import Durability
from bowstring.engine.broker.log_directories import LogDirectories
from bowstring.engine.broker.log_placement import (
    Future,
    PartitionKey,
    Places,
    assigned_id,
    find_places,
    where_to_open,
)
from bowstring.engine.broker.log_start import Opener
from bowstring.engine.broker.many_threads import run_on_threads, threads_for
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import ClusterImage, TopicImage

# Opening this many logs blocks the control thread for about a millisecond; more go to another thread.
_INLINE_LOGS: Final = 4
_NONE: Final[frozenset[int]] = frozenset()


class TopicLogs:
    """Every partition log of the broker, by topic and index.

    Kept slim: an idle partition is its PartitionLog and one place in a list.

    Attributes:
        unfinished: Copies of partitions that were under way between directories when the broker stopped.
        when_replaced: Called with topic, index and log when another log takes a partition's place.
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
        self._retired: dict[str, float] = {}
        self._compacted: set[str] = set()
        # recovery points are written by the supply of a write-ahead log, too
        self._writing = threading.Lock()
        self._written: dict[tuple[DataDirectory, str], dict[PartitionKey, int]] = {}
        self.unfinished: dict[PartitionKey, Future] = {}
        self.when_replaced: Callable[[str, int, PartitionLog], None] = lambda topic, index, log: None
        self.durability = Durability(configs, plane, self._checkpoint_recovery)

    # ------------------------------------------------------------ lookup

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, or None when it is not here."""
        logs = self._logs.get(topic)
        return logs[partition] if logs is not None and 0 <= partition < len(logs) else None

    def of_topic(self, topic: str) -> list[PartitionLog | None]:
        """The logs of a topic by index; None where a partition is not here."""
        return self._logs.get(topic, [])

    def __iter__(self) -> Iterator[tuple[str, int, PartitionLog]]:
        for topic, logs in list(self._logs.items()):
            for index, log in enumerate(logs):
                if log is not None:
                    yield topic, index, log

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether a partition of this broker takes no writes, because its log or its directory has failed."""
        if partition in self._offline.get(topic, ()):
            return True
        log = self.get(topic, partition)
        return log is not None and log.failed

    def is_missing(self, topic: str, partition: int) -> bool:
        """Whether a partition of this broker cannot even be read: its directory could not be opened."""
        return partition in self._offline.get(topic, ())

    def offline_of(self, topic: str) -> tuple[Set[int], Set[int]]:
        """The partitions of a topic that take no writes but can be read; and those that cannot be read."""
        missing = self._offline.get(topic, _NONE)
        if self._directories.all_online:
            return _NONE, missing
        return {i for i, log in enumerate(self.of_topic(topic)) if log is not None and log.failed}, missing

    @property
    def offline_count(self) -> int:
        """Partitions that take no writes."""
        return sum(map(len, self._offline.values())) + sum(log.failed for _, _, log in self)

    def counts(self) -> Counter[DataDirectory]:
        """How many partitions are in each directory."""
        return Counter(self._directories.of(log) for _, _, log in self)

    # ------------------------------------------------------------ opening

    def open_all(self, image: ClusterImage, threads: int) -> dict[PartitionKey, bytes]:
        """Opens every partition that the image gives this broker, and begins to serve it.

        Returns:
            The directory ids of partitions that are elsewhere than the image has them.

        Raises:
            DataDirectoryError, OSError, LogError: A log could not be opened; the message names its directory.
        """
        places = find_places(self._directories, image, self._node_id)
        opener = Opener(self._directories, places)
        self._retire_strays(places)
        topics = list(image.topics.values())
        for topic in topics:
            self._logs[topic.name] = [None] * len(topic.partitions)
        work = [(topic, index) for topic in topics for index in self._own(topic, 0)]
        elsewhere: dict[PartitionKey, bytes] = {}

        def open_one(item: tuple[TopicImage, int]) -> None:
            topic, index = item
            config = self._configs.log_config(image.topic_configs(topic.name))
            log = self._open(opener, places, topic, index, config)
            self._logs[topic.name][index] = log
            if log is None:
                self._offline.setdefault(topic.name, set()).add(index)
            elif (found := self._directories.of(log).directory_id) != assigned_id(
                topic, index, self._node_id
            ):
                elsewhere[topic.name, index] = found

        run_on_threads(open_one, work, threads_for(len(work), threads))
        self.unfinished = opener.unfinished
        self._written = opener.checkpoints()
        self._replay_wals(topics)
        self.durability.open(home.path for home in self._directories.opened)
        for topic in topics:
            self._serve(topic, range(len(topic.partitions)), image)
        if self._offline:
            log_lines.error(
                "partitions are offline, because their log directory is",
                partitions=sum(map(len, self._offline.values())),
                example=next(f"{topic}-{min(indexes)}" for topic, indexes in self._offline.items()),
            )
        return elsewhere

    def _open(
        self, opener: Opener, places: Places, topic: TopicImage, index: int, config: dict[str, int]
    ) -> PartitionLog | None:
        """Opens a partition found at start, or makes it anew where a crash came too early; None: offline."""
        key = topic.name, index
        assigned = assigned_id(topic, index, self._node_id)
        home: DataDirectory | str | None = self._directories.by_id(assigned)
        if key not in places.twice:
            home = where_to_open(self._directories, places, key, assigned)
        if isinstance(home, str):
            return None
        if home is None:
            home = self._directories.by_id(assigned) or self._place(key)
            log_lines.warning(
                "a partition has no directory; it is made anew, empty. Unless the topic had just been made, "
                "stop the broker and restore the directory from a copy",
                partition=partition_directory(*key),
                directory=str(home.path) if home is not None else None,
            )
            return self._make(topic, index, config, home) if home is not None else None
        try:
            log = opener.open(home, key, config)
        except (OSError, LogError):
            if home.health.failed and self._directories.online:
                return None
            raise
        report_findings(partition_directory(*key), log)
        return log

    def _place(self, key: PartitionKey) -> DataDirectory | None:
        return self._directories.place(self.counts(), self._cordoned(), key)

    def _cordoned(self) -> list[str]:
        return [os.path.abspath(path) for path in self._configs.value("cordoned.log.dirs")]

    def is_cordoned(self, directory: DataDirectory) -> bool:
        """Whether a directory takes no new partitions (KIP-1066)."""
        return str(directory.path) in self._cordoned()

    def assign(self, partitions: Iterable[PartitionKey]) -> list[bytes]:
        """Chooses a directory for each new partition: those with the fewest partitions first; their ids.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR when no directory is online.
        """
        counts = self.counts() if len(self._directories.all) > 1 else Counter[DataDirectory]()
        cordoned = self._cordoned()
        ids = []
        for key in partitions:
            directory = self._directories.place(counts, cordoned, key)
            if directory is None:
                raise KafkaError(Errors.KAFKA_STORAGE_ERROR, "every log directory has failed")
            counts[directory] += 1
            ids.append(directory.directory_id)
        return ids

    def _replay_wals(self, topics: list[TopicImage]) -> None:
        """After an unclean end; a partition that has moved since is found wherever it is now."""
        unclean = [home for home in self._directories.opened if not home.was_clean]
        logs = {
            (topic.id, index): log
            for topic in topics
            for index, log in enumerate(self._logs[topic.name])
            if unclean and log is not None
        }
        for home in unclean:
            self.durability.recover(home.path, logs)
        if unclean:
            self.checkpoint(RECOVERY_POINTS)()

    async def open_new(self, image: ClusterImage, topic: TopicImage) -> None:
        """Makes and serves the partitions of a topic that are not open yet, where the image has them."""
        if self._is_in_checkpoints(topic.name):
            # What a deleted topic of this name left there would be taken for the new one's after a crash.
            await asyncio.get_running_loop().run_in_executor(None, self.checkpoint(RECOVERY_POINTS))
        logs = self._logs.setdefault(topic.name, [])
        first = len(logs)
        logs.extend([None] * (len(topic.partitions) - first))
        indexes = self._own(topic, first)
        config = self._configs.log_config(image.topic_configs(topic.name))
        homes = [self._home_of_new(topic, index) for index in indexes]
        work = [(index, home) for index, home in zip(indexes, homes, strict=True) if home is not None]

        def make() -> list[PartitionLog]:
            return [self._make(topic, index, config, home) for index, home in work]

        if len(work) <= _INLINE_LOGS:
            made = make()
        else:
            made = await asyncio.get_running_loop().run_in_executor(None, make)
        # What is acknowledged in these partitions must not be lost with their directories' names.
        for path in {str(home.path) for _, home in work if not home.health.failed}:
            await asyncio.get_running_loop().run_in_executor(None, sync_directory, path)
        for (index, _), log in zip(work, made, strict=True):
            logs[index] = log
        for index in set(indexes) - {index for index, _ in work}:
            self._offline.setdefault(topic.name, set()).add(index)
        self._serve(topic, indexes, image)

    def _home_of_new(self, topic: TopicImage, index: int) -> DataDirectory | None:
        home = self._directories.by_id(assigned_id(topic, index, self._node_id))
        if home is None:
            home = self._place((topic.name, index))
        self._directories.preferred.pop((topic.name, index), None)
        return home if home is not None and not home.health.failed else None

    def _own(self, topic: TopicImage, first: int) -> list[int]:
        return [
            first + i
            for i, partition in enumerate(topic.partitions[first:])
            if self._node_id in partition.replicas
        ]

    def _is_in_checkpoints(self, topic: str) -> bool:
        """Whether a topic that is not here has entries in the checkpoints on disk."""
        return topic not in self._logs and any(
            name == topic for offsets in self._written.values() for name, _ in offsets
        )

    def _make(
        self, topic: TopicImage, index: int, config: dict[str, int], home: DataDirectory
    ) -> PartitionLog:
        name = partition_directory(topic.name, index)
        path = home.path / name
        try:
            if path.exists():
                # Left by a crash between the deletion of a topic and the renaming of its directories.
                self._retire(home, topic.name, index, STRAY_SUFFIX)
            path.mkdir()
            home.write_partition_metadata(name, topic.id)
        except OSError as error:
            if is_device_error(error.errno or 0):
                home.health.fail(error.errno or 0, "making a partition", str(path))
            raise
        return PartitionLog(str(path), config, recovery_point=0, clean_shutdown=True, health=home.health)

    def _retire_strays(self, places: Places) -> None:
        """Sets aside directories that belong to no partition of the image, and takes up deleted ones."""
        for home, topic_name, index in places.strays:
            name = partition_directory(topic_name, index)
            log_lines.warning("a directory belongs to no partition; it is set aside", directory=name)
            self._retire(home, topic_name, index, STRAY_SUFFIX)
        now = time.monotonic()
        for home in self._directories.opened:
            for name in home.deleted_directories():
                self._retired[str(home.path / name)] = now

    def _serve(self, topic: TopicImage, indexes: Iterable[int], image: ClusterImage) -> None:
        min_insync = self._configs.topic_value("min.insync.replicas", image.topic_configs(topic.name))
        if self._configs.log_config(image.topic_configs(topic.name))["compacted"]:
            self._compacted.add(topic.name)
        logs = self._logs[topic.name]
        for index in indexes:
            log = logs[index]
            if log is None and index not in self._offline.get(topic.name, ()):
                continue
            partition = topic.partitions[index]
            if log is not None and log.leader_epoch < partition.leader_epoch:
                log.assign_epoch(partition.leader_epoch, log.log_end_offset)
            if log is not None:
                self.durability.join(topic.id, index, log, image.topic_configs(topic.name))
                log.advance_high_watermark(log.log_end_offset)
            self._plane.add_partition(
                topic.name,
                topic.id,
                index,
                log,
                leader_epoch=partition.leader_epoch,
                min_insync_replicas=min_insync,
                in_sync_replicas=len(partition.in_sync),
                is_leader=partition.leader == self._node_id,
            )

    # ------------------------------------------------------------ changes

    def configure(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Puts a topic's configs in force in its logs."""
        config = self._configs.log_config(overrides)
        min_insync = self._configs.topic_value("min.insync.replicas", overrides)
        self._settle_compaction(topic, bool(config["compacted"]))
        for index, log in enumerate(self.of_topic(topic)):
            if log is not None:
                log.configure(config)
                self.durability.switch(topic, index, log, overrides)
                self._plane.update_partition(topic, index, min_insync_replicas=min_insync)

    def _settle_compaction(self, topic: str, compacted: bool) -> None:
        """Gaps of a topic that is compacted no more come to lie below its recovery points: above, recovery
        would take them for lost segments."""
        if not compacted and topic in self._compacted:
            flush_rolled([log for log in self.of_topic(topic) if log is not None])
            self.checkpoint(RECOVERY_POINTS)()
        (self._compacted.add if compacted else self._compacted.discard)(topic)

    def configure_all(self, image: ClusterImage) -> None:
        """The same for every topic, after a broker config changed."""
        for name in self._logs:
            self.configure(name, image.topic_configs(name))

    def remove(self, topic: str, delete_delay_ms: int) -> None:
        """Ends service of a topic and renames its directories; they are unlinked after the delay."""
        logs = self._logs.pop(topic)
        self._compacted.discard(topic)
        self._plane.remove_topic(topic)
        self._offline.pop(topic, None)
        due = time.monotonic() + delete_delay_ms / 1000
        for index, log in enumerate(logs):
            if log is not None:
                home = self._directories.of(log)
                path = str(home.path / home.retired_name(topic, index, DELETED_SUFFIX))
                if self._directories.guard(
                    home, "renaming a deleted partition", partial(os.rename, log.directory, path)
                ):
                    self._retired[path] = due
                self.durability.discard(log)
                log.mark_deleted(path)

    def _retire(self, home: DataDirectory, topic: str, index: int, suffix: str) -> str:
        target = home.path / home.retired_name(topic, index, suffix)
        os.rename(home.path / partition_directory(topic, index), target)
        return str(target)

    def replaced(self, topic: str, index: int, log: PartitionLog) -> None:
        """Another log has taken a partition's place in the data plane: it is that partition's from now on."""
        self._logs[topic][index] = log
        self.when_replaced(topic, index, log)

    def retire_later(self, path: str, due: float) -> None:
        """A directory that may be unlinked at `due` (time.monotonic)."""
        self._retired[path] = due

    def next_unlink(self) -> float | None:
        """When (time.monotonic) the next retired directory may be unlinked; None when there is none."""
        return min(self._retired.values(), default=None)

    def unlink_retired(self, now: float) -> None:
        """Unlinks retired directories whose time has come. Slow: not for the control thread."""
        for path, due in list(self._retired.items()):
            if due <= now:
                del self._retired[path]
                shutil.rmtree(path, ignore_errors=True)

    # ------------------------------------------------------------ checkpoints and the end

    def checkpoint(self, name: str) -> Callable[[], None]:
        """What writes one of the offset checkpoints, in each directory where it changed: for another thread.

        The offsets are taken now, on the control thread.
        """
        value = _CHECKPOINTS[name]
        offsets: dict[DataDirectory, dict[PartitionKey, int]] = {
            home: {} for home in self._directories.opened
        }
        for topic, index, log in self:
            offsets[self._directories.of(log)][topic, index] = value(log)
        if name != RECOVERY_POINTS:
            return partial(self._write_checkpoints, name, offsets)
        # Deleting records raises both. A recovery point alone would pass over records that were never synced.
        write_starts = self.checkpoint(LOG_START_OFFSETS)

        def write() -> None:
            write_starts()
            self._write_checkpoints(name, offsets)

        return write

    def _checkpoint_recovery(self) -> None:
        self.checkpoint(RECOVERY_POINTS)()

    def _write_checkpoints(self, name: str, offsets: dict[DataDirectory, dict[PartitionKey, int]]) -> None:
        with self._writing:
            for home, all_offsets in offsets.items():
                # Kafka leaves out of log starts what the first segment's name says already.
                skips_zero = name == LOG_START_OFFSETS
                found = {key: offset for key, offset in all_offsets.items() if offset > 0 or not skips_zero}
                if found != self._written.get((home, name)) and self._directories.guard(
                    home, f"writing {name}", partial(write_offsets, home.path / name, found)
                ):
                    self._written[home, name] = found

    def close(self, threads: int) -> None:
        """Closes every log, with snapshots of producer state; then everything is on the medium.

        Raises:
            OSError, LogError: Something could not be written; the next start must recover.
        """
        self.durability.stop()
        each_log = [log for _, _, log in self]
        ends: dict[DataDirectory, dict[PartitionKey, int]] = {home: {} for home in self._directories.opened}
        for topic, index, log in self:
            end = int(log.recovery_point if log.failed else log.log_end_offset)
            ends[self._directories.of(log)][topic, index] = end
        failures: list[Exception] = []
        run_on_threads(partial(_close, failures), each_log, threads_for(len(each_log), threads))
        # One sync of the file system instead of several for each of thousands of logs.
        for home in self._directories.opened:
            self._directories.guard(home, "syncing it", partial(sync_file_system, home.path))
        self._write_checkpoints(RECOVERY_POINTS, ends)
        self.checkpoint(LOG_START_OFFSETS)()
        self.checkpoint(HIGH_WATERMARKS)()
        self._logs.clear()
        # A failed log's producers and indexes are not as a clean end promises.
        for log in each_log:
            if log.failed:
                failure = f"{log.directory} has failed: {log.stats()['failure']}"
                failures.append(LogError(Errors.KAFKA_STORAGE_ERROR.code, failure))
                self._directories.unclean.add(self._directories.of(log))
        self.durability.close(is_clean=self._directories.is_clean)
        if failures:
            raise failures[-1]


def _close(failures: list[Exception], log: PartitionLog) -> None:
    """One log that cannot be closed holds no other up."""
    try:
        log.close(sync=False)
    except LogError as error:
        failures.append(error)


_CHECKPOINTS: Final[dict[str, Callable[[PartitionLog], int]]] = {
    RECOVERY_POINTS: lambda log: int(log.recovery_point),
    LOG_START_OFFSETS: lambda log: int(log.log_start_offset),
    HIGH_WATERMARKS: lambda log: int(log.high_watermark),
}
