"""What is looked at before a start touches anything: whether the metadata log can be what all rests on.

A broker whose metadata log is gone, or cut in its middle, would take every partition for one that belongs to
no topic. So it does not start; nothing has been written then, and a copy can be put back.
"""

import errno
import os
from pathlib import Path

from bowstring._native.log import LogError
from bowstring._native.log_verify import verify_file
from bowstring.engine.broker.data_directory import META_PROPERTIES, METADATA_PARTITION_DIRECTORY
from bowstring.engine.broker.directory_lock import DataDirectoryError


def check_metadata_log(path: Path) -> None:
    """Checks the directory that holds the metadata log, read-only. A new one has nothing to be checked.

    Raises:
        DataDirectoryError: Which file is missing, damaged or not readable, and what to do.
    """
    metadata = path / METADATA_PARTITION_DIRECTORY
    try:
        if not (path / META_PROPERTIES).exists():
            return
        _check_presence(path, metadata)
        for log in sorted(metadata.glob("[0-9]*.log")):
            _check_batches(log)
        if not os.access(path, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    except PermissionError as error:
        raise not_permitted(str(error.filename)) from error


def not_permitted(file: str) -> DataDirectoryError:
    """The error for a file that this user may not read or write."""
    return DataDirectoryError(
        f"{file} cannot be read and written: permission denied; make it belong to the user that runs the "
        "broker (chown -R), or start the broker as the user that did before"
    )


def explained(error: LogError, path: Path) -> Exception:
    """A better error for a log that could not be opened for want of permissions; else `error` itself."""
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
    files = os.listdir(metadata) if metadata.exists() else []
    if any(name.endswith((".log", ".checkpoint")) for name in files):
        return
    partition = next(
        (
            entry.name
            for entry in os.scandir(path)
            if entry.is_dir() and entry.name != metadata.name and entry.name.rpartition("-")[2].isdigit()
        ),
        None,
    )
    if partition is not None:
        raise DataDirectoryError(
            f"{metadata} {'is empty' if metadata.exists() else 'is missing'}, but {path} holds partitions "
            f"({partition}), which are lost without it; restore it from a copy. (A directory that Apache "
            "Kafka used with ZooKeeper has none: let Kafka migrate it to KRaft first.)"
        )


def _check_batches(log: Path) -> None:
    """A torn end is what a crash leaves, and is cut off later; damage that good batches follow is not."""
    try:
        found = verify_file(log, int(log.stem))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise DataDirectoryError(
                f"{log} is in a message format that Kafka 4 does not read any more; upgrade the directory "
                "with Apache Kafka 3 first"
            ) from error
        if isinstance(error, PermissionError):
            raise
        raise DataDirectoryError(
            f"{log} cannot be read: {error.strerror}; check the disk, or restore the file from a copy"
        ) from error
    damage = next((each for each in found["damage"] if each["end_offset"] >= 0), None)
    if damage is not None:
        raise DataDirectoryError(
            f"{log} is damaged at byte {damage['position']} (offset {damage['first_offset']}): "
            f"{damage['what']}, and good records follow; restore {log.parent} from a copy"
        )
