"""Manages the directories of log.dirs. Each has its own lock and identity and can fail on its own
(KIP-112).
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bowstring._native.disk.directory_health import is_device_error
from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine import event_log
from bowstring.engine.configs import ConfigError
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import (
    META_PROPERTIES,
    NO_EPOCH,
    DirectoryOfflineError,
    LogDirectory,
)

# Reserved ids that identify no directory: unassigned, lost, migrating (KIP-858).
UNASSIGNED: Final = bytes(16)
NO_DIRECTORY: Final = frozenset(bytes(15) + bytes([i]) for i in range(3))

MOST_PREFERRED: Final = 100_000
"""A broker remembers the directory of this many partitions that do not exist yet, the newest ones."""
_SLOW_LINES_APART_S: Final = 10.0
_CURES: Final = {
    errno.ENOSPC: "free space on it or move partitions to another directory, then restart the broker",
    errno.EDQUOT: "raise the quota or free space, then restart the broker",
    errno.EROFS: "remount it for writing, then restart the broker",
    errno.EIO: "check the disk (dmesg, smartctl) and replace it if it is broken, then restart the broker",
    errno.EACCES: "grant the broker's user write permission, then restart the broker",
}


class LogDirectories:
    """Every directory of log.dirs, in order.

    Attributes:
        all: The directories, online or not.
        metadata: The one with the metadata log: metadata.log.dir, by default the first.
        when_failed: Called on the control loop with each directory that fails.
        when_told: Called on the control loop when a log has failed for want of descriptors or memory, and at
            other times.
        preferred: The directories that AlterReplicaLogDirs requested for partitions that do not exist yet.
        unclean: Directories whose logs did not all close cleanly; they get no clean-shutdown marker.
    """

    def __init__(self, paths: Sequence[str], metadata_path: str | None = None, *, slow_ms: int = 0) -> None:
        if not paths:
            raise ConfigError("log.dirs is empty; name at least one directory")
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.all = [LogDirectory(path, event_fd=self._event_fd, slow_ms=slow_ms) for path in paths]
        self._by_path = {str(directory.path): directory for directory in self.all}
        if len(self._by_path) < len(self.all):
            os.close(self._event_fd)
            raise ConfigError(f"log.dirs names a directory twice: {','.join(paths)}")
        self.metadata = self.all[0]
        if metadata_path is not None:
            self.metadata = self._by_path.get(os.path.abspath(metadata_path)) or LogDirectory(
                metadata_path, event_fd=self._event_fd, slow_ms=slow_ms
            )
        self.when_failed: Callable[[LogDirectory], None] = lambda directory: None
        self.when_told: Callable[[], None] = lambda: None
        self.unclean: set[LogDirectory] = set()
        self._opened: list[LogDirectory] = []
        self._announced: set[LogDirectory] = set()
        self._slow_seen: dict[LogDirectory, tuple[int, float]] = {}
        self.preferred: dict[tuple[str, int], LogDirectory] = {}

    @property
    def cluster_id(self) -> str:
        """The cluster that all directories belong to, in text form."""
        return self.metadata.cluster_id

    @property
    def event_fd(self) -> int:
        """An eventfd that is readable when a directory has failed or was slow: call `look`."""
        return self._event_fd

    # ------------------------------------------------------------ open and close

    def open(self, node_id: int) -> None:
        """Locks and checks every directory. Directories that cannot be read or written stay offline.

        Raises:
            DataDirectoryError: A directory belongs to another broker, node or cluster; or the metadata log's
                directory, or all of them, cannot be used.
        """
        try:
            cluster_id = ""
            # Opens directories with an identity first: new ones join their cluster.
            for directory in sorted(self._with_metadata(), key=lambda each: not has_identity(each.path)):
                try:
                    directory.open(node_id, cluster_id)
                except DirectoryOfflineError as error:
                    self._offline_at_start(directory, error)
                    continue
                self._opened.append(directory)
                cluster_id = cluster_id or directory.cluster_id
            self._check_identities()
            if not any(directory in self._opened for directory in self.all):
                raise DataDirectoryError(f"none of log.dirs can be used: {', '.join(self._by_path)}")
        except BaseException:
            self.close()
            raise

    def _with_metadata(self) -> list[LogDirectory]:
        return self.all if self.metadata in self.all else [self.metadata, *self.all]

    def _offline_at_start(self, directory: LogDirectory, error: DirectoryOfflineError) -> None:
        if directory is self.metadata or len(self.all) == 1:
            raise error
        cause = error.__cause__
        number = cause.errno if isinstance(cause, OSError) and cause.errno else errno.EIO
        directory.health.fail(number, "opening it", str(directory.path))

    def _check_identities(self) -> None:
        ids: dict[bytes, LogDirectory] = {}
        first = self._opened[0] if self._opened else None
        for directory in self._opened:
            assert first is not None
            if directory.cluster_id != first.cluster_id:
                raise DataDirectoryError(
                    f"{first.path / META_PROPERTIES} belongs to cluster {first.cluster_id}, but "
                    f"{directory.path / META_PROPERTIES} to {directory.cluster_id}; all directories of "
                    "log.dirs must belong to one cluster: remove the wrong one from log.dirs"
                )
            other = ids.setdefault(directory.directory_id, directory)
            if other is not directory:
                raise DataDirectoryError(
                    f"{other.path / META_PROPERTIES} and {directory.path / META_PROPERTIES} have the same "
                    "directory.id: one directory is a copy of the other; remove the copy from log.dirs"
                )

    def close(self) -> None:
        """Releases all locks."""
        for directory in self._opened:
            directory.close()
        self._opened.clear()
        if self._event_fd >= 0:
            for directory in self._with_metadata():
                directory.health.stop_telling()
            os.close(self._event_fd)
            self._event_fd = -1

    def is_clean(self, path: str) -> bool:
        """Returns whether every log in the directory at this path was closed cleanly."""
        directory = self._by_path.get(path)
        return directory is not None and directory not in self.unclean and not directory.health.failed

    def mark_clean(self, broker_epoch: int) -> None:
        """Writes the clean-shutdown marker in every directory that has not failed."""
        for directory in self._opened:
            if directory not in self.unclean:
                self.guard(
                    directory,
                    "writing its clean-shutdown marker",
                    partial(directory.mark_clean, broker_epoch),
                )

    def leave_as_found(self, broker_epoch: int | None = None) -> None:
        """Restores the markers that `open` removed, for a start that ends before it opens a partition log.

        Args:
            broker_epoch: That of a start which is stopped, -1 before its registration; new directories get
                a marker then, too. None: the start has failed.
        """
        for directory in self._opened:
            if directory.is_new and broker_epoch is None:
                continue
            if directory.was_clean and not directory.health.failed:
                # the next start then recovers; the original error matters more
                with contextlib.suppress(OSError):
                    directory.mark_clean(
                        max(NO_EPOCH if broker_epoch is None else broker_epoch, directory.clean_epoch)
                    )

    # ------------------------------------------------------------ which is which

    @property
    def online(self) -> list[LogDirectory]:
        """Directories that have partitions and accept writes."""
        return [directory for directory in self.all if not directory.health.failed]

    @property
    def opened(self) -> list[LogDirectory]:
        """Directories that could be opened at start; some may have failed since."""
        return [directory for directory in self.all if directory in self._opened]

    @property
    def all_online(self) -> bool:
        """Whether no directory has failed."""
        return not any(directory.health.failed for directory in self.all)

    @property
    def why_lost(self) -> str | None:
        """Returns why a node cannot continue with its directories: all of log.dirs failed, or that of the
        metadata log. None while it can.
        """
        failure = self.metadata.health.failure
        if failure is not None:
            number, doing, where = failure
            return (
                f"the directory of the metadata log, {self.metadata.path}, has failed: {doing} in {where}: "
                f"{os.strerror(number)}"
            )
        if not self.online:
            return f"every log directory has failed: {', '.join(str(each.path) for each in self.all)}"
        return None

    @property
    def offline_count(self) -> int:
        """Number of failed directories (Kafka's OfflineLogDirectoryCount)."""
        return sum(directory.health.failed for directory in self._with_metadata())

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self.all)

    def by_path(self, path: str) -> LogDirectory | None:
        """Returns the directory of log.dirs with this absolute path."""
        return self._by_path.get(path)

    def wal_failed(self, path: str, error: int) -> None:
        """Takes a directory out of service whose write-ahead log has ended: others lead its partitions."""
        self._by_path[path].health.fail(error, "writing the write-ahead log", path)

    def by_id(self, directory_id: bytes) -> LogDirectory | None:
        """Returns the opened directory with this id."""
        for each in self.all:  # called for each partition
            if each.directory_id == directory_id and each in self._opened:
                return each
        return None

    def of(self, log: PartitionLog) -> LogDirectory:
        """Returns the directory that holds a log."""
        assert log.health is not None
        return self._by_path[log.health.path]

    @property
    def clean_epoch(self) -> int:
        """The epoch of the broker that shut down cleanly; -1 if one of the directories says otherwise."""
        epochs = {directory.clean_epoch for directory in self.online}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    def ids(self) -> list[bytes]:
        """Ids of online directories, for the broker's registration."""
        return sorted(directory.directory_id for directory in self.online)

    # ------------------------------------------------------------ placement

    def place(
        self, counts: Mapping[LogDirectory, int], cordoned: Sequence[str], wanted: tuple[str, int]
    ) -> LogDirectory | None:
        """Chooses the directory of a new partition: the one that AlterReplicaLogDirs requested, else the one
        with the fewest partitions.

        Args:
            counts: Current number of partitions in each directory.
            cordoned: Paths used only if no other directory is left (KIP-1066).
            wanted: The partition, by topic and index.

        Returns:
            The directory; None when none is online.
        """
        online = self.online
        preferred = self.preferred.get(wanted)
        if preferred in online:
            return preferred
        open_to_new = [each for each in online if str(each.path) not in cordoned] or online[:1]
        return min(open_to_new, key=lambda each: counts.get(each, 0), default=None)

    def prefer(self, topic: str, index: int, directory: LogDirectory) -> None:
        """Remembers the directory for a partition that does not exist yet. No client fills the memory so."""
        self.preferred.pop((topic, index), None)
        self.preferred[topic, index] = directory
        if len(self.preferred) > MOST_PREFERRED:
            del self.preferred[next(iter(self.preferred))]

    # ------------------------------------------------------------ failing

    def guard(self, directory: LogDirectory, doing: str, work: Callable[[], None]) -> bool:
        """Runs `work` on files of a directory unless it has failed. An I/O error takes the directory offline.

        Returns:
            Whether the work was done.

        Raises:
            OSError: An error that does not come from the device.
        """
        if directory.health.failed:
            return False
        try:
            work()
        except OSError as error:
            if not is_device_error(error.errno or errno.EIO):
                raise
            directory.health.fail(error.errno or errno.EIO, doing, str(error.filename or directory.path))
            return False
        return True

    def look(self) -> None:
        """Logs the directories that have failed or were slow since the last call. On the control thread."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event_fd)
        for directory in self._with_metadata():
            failure = directory.health.failure
            if failure is not None and directory not in self._announced:
                self._announced.add(directory)
                self._announce(directory, *failure)
                self.when_failed(directory)
            self._tell_of_slowness(directory)
        self.when_told()

    def _announce(self, directory: LogDirectory, number: int, doing: str, where: str) -> None:
        event_log.error(
            "a log directory has failed; its partitions accept no writes until the broker restarts",
            directory=str(directory.path),
            error=f"{errno.errorcode.get(number, number)} ({os.strerror(number)})",
            doing=doing,
            where=where,
            cure=_CURES.get(number, "check its file system, then restart the broker"),
        )

    def _tell_of_slowness(self, directory: LogDirectory) -> None:
        slow = directory.health.slow_operations
        seen, told_at = self._slow_seen.get(directory, (0, -_SLOW_LINES_APART_S))
        news, now = slow - seen, time.monotonic()
        if news and now - told_at >= _SLOW_LINES_APART_S:
            self._slow_seen[directory] = slow, now
            event_log.warning(
                "a log directory is slow; check the disk if this repeats",
                directory=str(directory.path),
                operations=news,
                slowest_ms=round(directory.health.take_slowest_ms()),
            )


def has_identity(path: Path) -> bool:
    """Returns whether a directory has a meta.properties; also False when that cannot be read."""
    try:
        return (path / META_PROPERTIES).exists()
    except OSError:
        return False
