"""The partition logs of this broker: opened, served by the data plane, configured, retired."""

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from bowstring._native.dataplane import DataPlane
from bowstring._native.log import LogError, PartitionLog
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    PartitionKey,
    read_offsets,
    sync_file_system,
    write_offsets,
)
from bowstring.engine.broker.damage import report_findings
from bowstring.engine.broker.data_directory import (
    DELETED_SUFFIX,
    METADATA_PARTITION_DIRECTORY,
    STRAY_SUFFIX,
    DataDirectory,
    partition_directory,
)
from bowstring.engine.broker.durability import Durability
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.errors import Errors
from bowstring.engine.metadata.image import ClusterImage, TopicImage

# Opening this many logs blocks the control thread for about a millisecond; more go to another thread.
_INLINE_LOGS: Final = 4
_LOGS_PER_THREAD: Final = 64

T = TypeVar("T")


class TopicLogs:
    """Every partition log of the broker, by topic and index.

    Kept slim: an idle partition is its PartitionLog and one place in a list.
    """

    def __init__(
        self, directory: DataDirectory, configs: BrokerConfigs, plane: DataPlane, node_id: int
    ) -> None:
        self._directory = directory
        self._configs = configs
        self._plane = plane
        self._node_id = node_id
        self._logs: dict[str, list[PartitionLog | None]] = {}
        self._retired: dict[str, float] = {}
        self._written: dict[str, dict[PartitionKey, int]] = {}
        # recovery points are written by the supply of a write-ahead log, too
        self._writing = threading.Lock()
        self.durability = Durability(configs, plane, lambda: self.checkpoint(RECOVERY_POINTS))

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

    # ------------------------------------------------------------ opening

    def open_all(self, image: ClusterImage, threads: int) -> None:
        """Opens every partition that the image gives this broker, and begins to serve it.

        Raises:
            OSError, LogError: A log could not be opened; the message names its directory.
        """
        recovery_points = read_offsets(self._directory.path / RECOVERY_POINTS)
        log_starts = read_offsets(self._directory.path / LOG_START_OFFSETS)
        self._retire_strays(image)
        topics = list(image.topics.values())
        for topic in topics:
            self._logs[topic.name] = [None] * len(topic.partitions)
        work = [(topic, index) for topic in topics for index in self._own(topic, 0)]

        def open_one(item: tuple[TopicImage, int]) -> None:
            topic, index = item
            key = (topic.name, index)
            config = self._configs.log_config(image.topic_configs(topic.name))
            self._open(topic, index, config, recovery_points.get(key, 0), log_starts.get(key, 0))

        run_on_threads(open_one, work, threads_for(len(work), threads))
        if not self._directory.was_clean:
            self._replay_wal(topics)
        self.durability.open([self._directory.path])
        for topic in topics:
            self._serve(topic, range(len(topic.partitions)), image)

    def _replay_wal(self, topics: list[TopicImage]) -> None:
        logs = {
            (topic.id, index): log
            for topic in topics
            for index, log in enumerate(self._logs[topic.name])
            if log is not None
        }
        self.durability.recover(self._directory.path, logs)
        self.checkpoint(RECOVERY_POINTS)

    async def open_new(self, image: ClusterImage, topic: TopicImage) -> None:
        """Makes and serves the partitions of a topic that are not open yet."""
        logs = self._logs.setdefault(topic.name, [])
        first = len(logs)
        logs.extend([None] * (len(topic.partitions) - first))
        indexes = self._own(topic, first)
        config = self._configs.log_config(image.topic_configs(topic.name))
        if len(indexes) <= _INLINE_LOGS:
            made = [self._make(topic, index, config) for index in indexes]
        else:
            made = await asyncio.get_running_loop().run_in_executor(
                None, lambda: [self._make(topic, index, config) for index in indexes]
            )
        for index, log in zip(indexes, made, strict=True):
            logs[index] = log
        self._serve(topic, indexes, image)

    def _own(self, topic: TopicImage, first: int) -> list[int]:
        return [
            first + i
            for i, partition in enumerate(topic.partitions[first:])
            if self._node_id in partition.replicas
        ]

    def _make(self, topic: TopicImage, index: int, config: dict[str, int]) -> PartitionLog:
        name = partition_directory(topic.name, index)
        path = self._directory.path / name
        if path.exists():
            # Left by a crash between the deletion of a topic and the renaming of its directories.
            self._retire(topic.name, index, STRAY_SUFFIX)
        path.mkdir()
        self._directory.write_partition_metadata(name, topic.id)
        return PartitionLog(str(path), config, recovery_point=0, clean_shutdown=True)

    def _open(
        self, topic: TopicImage, index: int, config: dict[str, int], recovery_point: int, log_start: int
    ) -> None:
        """Opens a partition found at start, or makes it when a crash came before its directory did."""
        name = partition_directory(topic.name, index)
        path = f"{self._directory.path}/{name}"
        if not os.path.isdir(path):
            log: PartitionLog = self._make(topic, index, config)
        else:
            log = PartitionLog(
                path,
                config,
                recovery_point=recovery_point,
                clean_shutdown=self._directory.was_clean,
                log_start_offset=log_start,
            )
            report_findings(name, log)
        self._logs[topic.name][index] = log

    def _retire_strays(self, image: ClusterImage) -> None:
        """Sets aside directories that belong to no partition of the image, and takes up deleted ones."""
        for name in list(self._directory.partition_directories()):
            if name == METADATA_PARTITION_DIRECTORY:
                continue
            topic_name, _, index = name.rpartition("-")
            if not self._belongs(image.topics.get(topic_name), name, int(index)):
                log_lines.warning("a directory belongs to no partition; it is set aside", directory=name)
                self._retire(topic_name, int(index), STRAY_SUFFIX)
        now = time.monotonic()
        for name in self._directory.deleted_directories():
            self._retired[str(self._directory.path / name)] = now

    def _belongs(self, topic: TopicImage | None, name: str, index: int) -> bool:
        if topic is None or index >= len(topic.partitions):
            return False
        if self._directory.was_clean:
            return True
        # A crash may have come between the deletion of a topic of this name and the renaming.
        found_id = self._directory.read_partition_metadata(name)
        return found_id is None or found_id == topic.id

    def _serve(self, topic: TopicImage, indexes: Iterable[int], image: ClusterImage) -> None:
        min_insync = self._configs.topic_value("min.insync.replicas", image.topic_configs(topic.name))
        logs = self._logs[topic.name]
        for index in indexes:
            log = logs[index]
            if log is None:
                continue
            partition = topic.partitions[index]
            if log.leader_epoch < partition.leader_epoch:
                log.assign_epoch(partition.leader_epoch, log.log_end_offset)
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
        for index, log in enumerate(self.of_topic(topic)):
            if log is not None:
                log.configure(config)
                self.durability.switch(topic, index, log, overrides)
                self._plane.update_partition(topic, index, min_insync_replicas=min_insync)

    def configure_all(self, image: ClusterImage) -> None:
        """The same for every topic, after a broker config changed."""
        for name in self._logs:
            self.configure(name, image.topic_configs(name))

    def remove(self, topic: str, delete_delay_ms: int) -> None:
        """Ends service of a topic and renames its directories; they are unlinked after the delay."""
        logs = self._logs.pop(topic)
        self._plane.remove_topic(topic)
        due = time.monotonic() + delete_delay_ms / 1000
        for index, log in enumerate(logs):
            if log is not None:
                path = self._retire(topic, index, DELETED_SUFFIX)
                self.durability.discard(log)
                log.mark_deleted(path)
                self._retired[path] = due

    def _retire(self, topic: str, index: int, suffix: str) -> str:
        target = self._directory.path / self._directory.retired_name(topic, index, suffix)
        os.rename(self._directory.path / partition_directory(topic, index), target)
        return str(target)

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

    def checkpoint(self, name: str) -> None:
        """Writes one of the offset checkpoints, if it has changed since it was last written."""
        value = _CHECKPOINTS[name]
        self._write_checkpoint(name, {(topic, index): value(log) for topic, index, log in self})

    def _write_checkpoint(self, name: str, offsets: dict[PartitionKey, int]) -> None:
        if name == LOG_START_OFFSETS:
            # Kafka leaves out what the first segment's name says already.
            offsets = {key: offset for key, offset in offsets.items() if offset > 0}
        with self._writing:
            if offsets != self._written.get(name):
                write_offsets(self._directory.path / name, offsets)
                self._written[name] = offsets

    def close(self, threads: int) -> None:
        """Closes every log, with snapshots of producer state; then everything is on the medium.

        Raises:
            OSError, LogError: Something could not be written; the next start must recover.
        """
        self.durability.stop()
        each_log = [log for _, _, log in self]
        ends = {
            (topic, index): int(log.recovery_point if log.failed else log.log_end_offset)
            for topic, index, log in self
        }
        run_on_threads(lambda log: log.close(sync=False), each_log, threads_for(len(each_log), threads))
        # One sync of the file system instead of several for each of thousands of logs.
        sync_file_system(self._directory.path)
        self._write_checkpoint(RECOVERY_POINTS, ends)
        self.checkpoint(LOG_START_OFFSETS)
        self.checkpoint(HIGH_WATERMARKS)
        self._logs.clear()
        self.durability.close(clean=not any(log.failed for log in each_log))
        for log in each_log:
            if log.failed:  # its producers and indexes are not as a clean end promises
                raise LogError(
                    Errors.KAFKA_STORAGE_ERROR.code, f"{log.directory} has failed: {log.stats()['failure']}"
                )


_CHECKPOINTS: Final[dict[str, Callable[[PartitionLog], int]]] = {
    RECOVERY_POINTS: lambda log: int(log.recovery_point),
    LOG_START_OFFSETS: lambda log: int(log.log_start_offset),
    HIGH_WATERMARKS: lambda log: int(log.high_watermark),
}


def threads_for(logs: int, most: int) -> int:
    """How many threads are worth their while for so many logs."""
    return max(1, min(most, logs // _LOGS_PER_THREAD))


def run_on_threads(work: Callable[[T], object], items: Sequence[T], threads: int) -> None:
    """Does `work` for each item on several threads, this one among them; raises the first error."""
    pending = iter(items)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def drain() -> None:
        while not errors:
            with lock:
                item = next(pending, None)
            if item is None:
                return
            try:
                work(item)
            except BaseException as error:
                errors.append(error)

    helpers = []
    for _ in range(threads - 1):
        helper = threading.Thread(target=drain)
        try:
            helper.start()
        except RuntimeError:
            break  # the interpreter is ending: this thread does it alone
        helpers.append(helper)
    drain()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
