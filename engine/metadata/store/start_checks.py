"""Checks before a start changes anything that the metadata log is present and intact.

Without its metadata log, or with one damaged in the middle, a broker would treat every partition as a stray.
So it refuses to start before it has written anything, and the log can be restored from a copy.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from bowstring._native.log.partition_log import LogError
from bowstring._native.log.verify import verify_file
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_PARTITION_DIRECTORY,
)
from bowstring.protocol.whole_numbers import whole_number


def check_metadata_log(path: Path, synced_end: int | None) -> None:
    """Checks the directory of the metadata log without writing. A new data directory passes.

    Args:
        synced_end: Records below were synced; None: unknown.

    Raises:
        DataDirectoryError: Names the missing, damaged or unreadable file and says what to do.
    """
    metadata = path / METADATA_PARTITION_DIRECTORY
    try:
        if not (path / META_PROPERTIES).exists():
            return
        _check_presence(path, metadata)
        logs = sorted(metadata.glob("[0-9]*.log"))
        was_clean = (path / CLEAN_SHUTDOWN).exists()
        for log in logs:
            _check_batches(log, synced_end, is_last=log is logs[-1], was_clean=was_clean)
        if not os.access(path, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    except PermissionError as error:
        raise not_permitted(str(error.filename)) from error


def check_metadata_log_is_here(path: Path, others: Iterable[Path]) -> None:
    """Checks that no other directory of the node has what a new metadata log would lose: an older one, or
    partitions. For nodes that cannot copy the log from other controllers.

    Args:
        path: The directory of the metadata log.
        others: The other log directories.

    Raises:
        DataDirectoryError: Names the other directory and says what to do.
    """
    if _has_log(path / METADATA_PARTITION_DIRECTORY):
        return
    partitions: list[tuple[Path, str]] = []
    for other in others:
        if other == path:
            continue
        try:
            has_log, partition = _has_log(other / METADATA_PARTITION_DIRECTORY), _partition_in(other)
        except OSError:
            continue  # it will be offline
        if has_log:
            raise DataDirectoryError(
                f"the metadata log is in {other}, and {path} has none, in which it would begin anew without "
                f"any topic; set metadata.log.dir={other}, or name that directory first in log.dirs"
            )
        if partition is not None:
            partitions.append((other, partition))
    if partitions:
        other, partition = partitions[0]
        raise DataDirectoryError(
            f"{path} has no metadata log, but {other} holds partitions ({partition}), which are lost without "
            f"it; restore {METADATA_PARTITION_DIRECTORY} from a copy, or set metadata.log.dir to the "
            "directory that has it"
        )


def not_permitted(file: str) -> DataDirectoryError:
    """Returns the error for a file that this user may not read or write."""
    return DataDirectoryError(
        f"{file} cannot be read and written: permission denied; give it to the user that runs the broker "
        "(chown -R), or start the broker as the previous user"
    )


def explained(error: LogError, path: Path) -> Exception:
    """Returns a clearer error for a log that could not be opened because of permissions; otherwise `error`
    itself.
    """
    if os.strerror(errno.EACCES) in str(error):
        for partition in [path, *(Path(entry.path) for entry in os.scandir(path) if entry.is_dir())]:
            if not os.access(partition, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
                return not_permitted(str(partition))
            for file in os.scandir(partition):
                if not os.access(file.path, os.R_OK | os.W_OK, effective_ids=True):
                    return not_permitted(file.path)
    return error


def _check_presence(path: Path, metadata: Path) -> None:
    if metadata.exists() and not metadata.is_dir():
        raise DataDirectoryError(
            f"{metadata} is a file, but must be the directory of the metadata log; restore it from a copy"
        )
    if _has_log(metadata):
        return
    partition = _partition_in(path)
    if partition is not None:
        raise DataDirectoryError(
            f"{metadata} {'is empty' if metadata.exists() else 'is missing'}, but {path} holds partitions "
            f"({partition}), which are lost without it; restore it from a copy. (A directory that Apache "
            "Kafka used with ZooKeeper has no metadata log: let Kafka migrate it to KRaft first.)"
        )


def _has_log(metadata: Path) -> bool:
    """Whether the directory of a metadata log has a segment or a snapshot."""
    names = os.listdir(metadata) if metadata.is_dir() else []
    return any(name.endswith((".log", ".checkpoint")) for name in names)


def _partition_in(path: Path) -> str | None:
    """Returns the name of a partition's directory; None if there is none."""
    entries = os.scandir(path) if path.is_dir() else ()
    return next(
        (
            entry.name
            for entry in entries
            if entry.is_dir()
            and entry.name != METADATA_PARTITION_DIRECTORY
            and whole_number(entry.name.rpartition("-")[2]) is not None
        ),
        None,
    )


def _check_batches(log: Path, synced_end: int | None, *, is_last: bool, was_clean: bool) -> None:
    """Accepts a torn end, which a crash leaves and recovery cuts off; refuses damage before complete batches
    that were synced.

    The torn batch may have good bytes after the damage, and good batches that were written after it: power
    loss may keep a file's new size and only some of its pages.
    """
    try:
        found = verify_file(log, int(log.stem))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise DataDirectoryError(
                f"{log} is in a message format that Kafka 4 no longer reads; upgrade the directory with "
                "Apache Kafka 3 first"
            ) from error
        if isinstance(error, PermissionError):
            raise
        raise DataDirectoryError(
            f"{log} cannot be read: {error.strerror}; check the disk, or restore the file from a copy"
        ) from error
    damage = next((each for each in found["damage"] if each["end_offset"] >= 0), None)
    if damage is None:
        return
    is_at_end = is_last and damage["position"] + damage["size_bytes"] == found["position"]
    is_unsynced = synced_end is not None and damage["first_offset"] >= synced_end
    if was_clean or not (is_at_end or is_unsynced):
        raise DataDirectoryError(
            f"{log} is damaged at byte {damage['position']} (offset {damage['first_offset']}): "
            f"{damage['what']}. A crash does not cause this; restore {log.parent} from a copy"
        )
