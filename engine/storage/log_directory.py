"""Opens and locks one log directory and reads its identity. Files are the same as Kafka's."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring.engine.configs.files import parse_properties
from bowstring.engine.storage.checkpoints import replace_file, sync_directory
from bowstring.engine.storage.directory_lock import DataDirectoryError, take_lock
from bowstring.engine.storage.open_files import open_file, with_reserve
from bowstring.engine.storage.staged_tails import StagedTails
from bowstring.protocol.ids import format_uuid, parse_uuid, random_uuid
from bowstring.protocol.whole_numbers import whole_number

META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
METADATA_PARTITION_DIRECTORY: Final = "__cluster_metadata-0"
OWNER_ONLY: Final = 0o700
"""The mode of directories that a node creates: logs hold records, and hashes of passwords."""
DELETED_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
NAME_BYTES_MAX: Final = 255
NO_EPOCH: Final = -1


class DirectoryOfflineError(DataDirectoryError):
    """A log directory whose file system fails. A broker with other directories continues without it."""


def partition_directory(topic: str, partition: int) -> str:
    """Returns the name of a partition's directory."""
    return f"{topic}-{partition}"


def partition_metadata(topic_id: bytes) -> bytes:
    """Returns the content of partition.metadata, which ties a directory to its topic's id (KIP-516)."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}\n".encode()


def future_directory(topic: str, partition: int) -> str:
    """Returns the directory name of a future replica (KIP-113); too long for a very long topic name."""
    return f"{topic}-{partition}.{random_uuid().hex()}{FUTURE_SUFFIX}"


def _epoch_in(marker: bytes) -> int:
    """Returns the broker epoch in a clean-shutdown marker; NO_EPOCH in one of an older version."""
    try:
        return int(json.loads(marker)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return NO_EPOCH


def _make(path: Path, mode: int = 0o777) -> None:
    """Creates a directory and its missing parents, and makes their names durable."""
    if not path.is_dir():
        _make(path.parent)
        path.mkdir(mode=mode, exist_ok=True)
        sync_directory(path.parent)


class LogDirectory:
    """One log directory, locked for this process from `open` to `close`.

    Attributes:
        path: The directory.
        cluster_id: The cluster it belongs to, in text form.
        node_id: The node it belongs to.
        directory_id: Its own id, 16 bytes.
        is_new: Whether it had no identity before `open`.
        was_clean: Whether the last broker on it shut down cleanly.
        clean_epoch: The epoch of that broker; -1 if it is not known.
        health: Whether its device takes writes; shared by every log in it.
        tails: The memory for the staged tails of its logs.
        page_cache: Which logs keep their page cache: "all", "led" (by this broker) or "none"; for `open`.
    """

    def __init__(self, path: str | Path, *, event_fd: int = -1, slow_ms: int = 0) -> None:
        self.path = Path(os.path.abspath(path))
        self.health = DirectoryHealth(str(self.path), event_fd=event_fd, slow_ms=slow_ms)
        self.cluster_id = ""
        self.node_id = -1
        self.directory_id = b""
        self.is_new = False
        self.was_clean = False
        self.clean_epoch = NO_EPOCH
        self.tails = StagedTails(self.path, self.health)
        self.page_cache = "all"
        self._lock_fd = -1

    def open(self, node_id: int, cluster_id: str = "") -> None:
        """Locks the directory, creates it if needed, and checks which cluster and node it belongs to.

        Args:
            node_id: The node it must belong to.
            cluster_id: The cluster that a new directory joins; empty: a new cluster.

        Raises:
            DirectoryOfflineError: The directory cannot be read or written.
            DataDirectoryError: Another broker uses it, or it belongs to another node.
        """
        try:
            _make(self.path, OWNER_ONLY)
            cure = "stop that broker, or name another directory with --data"
            self._lock_fd = take_lock(self.path, cure)
        except OSError as error:
            raise DirectoryOfflineError(
                f"cannot use the data directory {self.path}: {error.strerror}; check that it is a directory "
                "that this user may write to, or name another with --data"
            ) from error
        try:
            self._load_identity(node_id, cluster_id)
            # A marker is valid for one start. Like Kafka, remove it before anything is written.
            marker = self.path / CLEAN_SHUTDOWN
            self.was_clean = marker.exists() or self.is_new
            if marker.exists():
                self.clean_epoch = _epoch_in(marker.read_bytes())
                marker.unlink()
                # otherwise power loss could restore the marker, and recovery would trust the directory
                sync_directory(self.path)
            self.tails.open()
            if self.page_cache != "all":
                self.health.write_behind(all_logs=self.page_cache == "none")
        except OSError as error:
            self.close()
            raise DirectoryOfflineError(
                f"cannot read or write the data directory {self.path}: {error}; check its file system"
            ) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Releases the lock. Close the logs in it first."""
        self.tails.close()
        self.health.end_writing_behind()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def mark_clean(self, broker_epoch: int) -> None:
        """Writes the marker that lets the next start skip recovery. Call right before `close`."""
        replace_file(self.path / CLEAN_SHUTDOWN, f'{{"version":0,"brokerEpoch":{broker_epoch}}}')

    # ------------------------------------------------------------ identity

    def _load_identity(self, node_id: int, cluster_id: str) -> None:
        path = self.path / META_PROPERTIES
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._give_identity(path, node_id, cluster_id)
            return
        facts = {name: value for name, value, _ in parse_properties(text)}
        if facts.get("version", "1") not in ("0", "1"):
            raise DataDirectoryError(
                f"{path} has version {facts['version']}, and this broker supports version 1; a newer broker "
                "wrote it: start that one, or name another directory with --data"
            )
        try:
            found = int(facts.get("node.id") or facts["broker.id"])
            self.cluster_id = facts["cluster.id"]
            self.directory_id = parse_uuid(facts["directory.id"]) if "directory.id" in facts else b""
        except (KeyError, ValueError) as error:
            raise DataDirectoryError(
                f"{path} is damaged ({error}); restore it with version=1 and the previous cluster.id, "
                "node.id and directory.id"
            ) from error
        if found != node_id:
            raise DataDirectoryError(
                f"{path} belongs to node {found}, but this broker's node.id is {node_id}; "
                f"set node.id={found} or name another directory with --data"
            )
        self.node_id = found
        if not self.directory_id:
            self.directory_id = random_uuid()
            self._write_identity(path)

    def _give_identity(self, path: Path, node_id: int, cluster_id: str) -> None:
        occupied = next(self.partition_directories(), None)
        if occupied is not None:
            raise DataDirectoryError(
                f"{path} is missing, but {self.path} holds partitions ({occupied}); "
                "restore the file, or name another directory with --data"
            )
        self.is_new = True
        self.node_id = node_id
        self.cluster_id = cluster_id or format_uuid(random_uuid())
        self.directory_id = random_uuid()
        self._write_identity(path)

    def _write_identity(self, path: Path) -> None:
        replace_file(
            path,
            f"#\n#{time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime())}\n"
            f"cluster.id={self.cluster_id}\ndirectory.id={format_uuid(self.directory_id)}\n"
            f"node.id={self.node_id}\nversion=1\n",
        )

    # ------------------------------------------------------------ partitions

    def partition_directories(self) -> Iterator[str]:
        """Names of partition directories, without deleted and future ones."""
        for entry in os.scandir(self.path):
            topic, dash, partition = entry.name.rpartition("-")
            if dash and topic and whole_number(partition) is not None and entry.is_dir():
                yield entry.name

    def deleted_directories(self) -> list[str]:
        """Names of directories of deleted partitions that are not yet unlinked."""
        return [entry.name for entry in os.scandir(self.path) if entry.name.endswith(DELETED_SUFFIX)]

    def future_directories(self) -> Iterator[tuple[str, str, int]]:
        """Yields (name, topic, partition) of each future replica in this directory (KIP-113)."""
        for entry in os.scandir(self.path):
            whole, dot, unique = entry.name.rpartition(".")
            topic, dash, partition = whole.rpartition("-")
            number = whole_number(partition)
            if dot and dash and topic and number is not None and unique.endswith(FUTURE_SUFFIX):
                yield entry.name, topic, number

    def retired_name(self, topic: str, partition: int, suffix: str) -> str:
        """Returns the name that a partition's directory gets when it is deleted or found to belong to no
        topic.
        """
        unique = random_uuid().hex()
        # Like Kafka, shortens the topic so that the whole name fits 255 bytes.
        room = NAME_BYTES_MAX - len(f"-{partition}.{unique}{suffix}")
        return f"{topic[:room]}-{partition}.{unique}{suffix}"

    def partition_path(self, topic: str, partition: int) -> str:
        """Returns the path of a partition's directory."""
        return f"{self.path}/{topic}-{partition}"

    def retire(self, topic: str, partition: int, suffix: str) -> str:
        """Renames a partition's directory; returns its new path."""
        target = self.path / self.retired_name(topic, partition, suffix)
        os.rename(self.partition_path(topic, partition), target)
        return str(target)

    def write_partition_metadata(self, directory: str, topic_id: bytes) -> None:
        """Writes partition.metadata, which ties a directory to its topic's id (KIP-516).

        Not synced: the metadata log holds the same id, and a start rewrites a file that a crash has lost.
        """
        fd = open_file(self.path / directory / PARTITION_METADATA, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(fd, partition_metadata(topic_id))
        finally:
            os.close(fd)

    def sync_partition_metadata(self, directory: str) -> None:
        """Syncs the file and its name."""
        fd = open_file(self.path / directory / PARTITION_METADATA, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(self.path / directory)

    def read_partition_metadata(self, directory: str) -> bytes | None:
        """Returns the topic id of a partition's directory; None when the file has none: power loss may leave
        the file missing or with any content.
        """
        path = self.path / directory / PARTITION_METADATA
        try:
            text = with_reserve(lambda: path.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None
        facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        try:
            return parse_uuid(facts["topic_id"].strip())
        except (KeyError, ValueError):
            return None
