"""Reads the first records of a new cluster, which formatting leaves in a directory (KIP-778, KIP-1170)."""

from pathlib import Path
from typing import Final

from bowstring.engine.metadata.snapshot import BOOTSTRAP_ID, SnapshotError, decode_bootstrap
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY
from bowstring.protocol.schema import MetadataRecord

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
"""Here formatting leaves them, as Kafka's did before 4.4."""


def bootstrap_snapshot(home: Path) -> Path:
    """Returns where Kafka 4.4's storage tool leaves them: in the snapshot that ends at offset 0."""
    return MetadataSnapshots(home / METADATA_PARTITION_DIRECTORY).path(BOOTSTRAP_ID)


def is_for_cluster(home: Path) -> bool:
    """Whether formatting has left the first records of a cluster in a directory.

    Args:
        home: The directory that holds, or will hold, the metadata log.
    """
    return (home / BOOTSTRAP_CHECKPOINT).exists() or bootstrap_snapshot(home).exists()


def read_bootstrap(home: Path) -> list[MetadataRecord]:
    """Returns the first records of a new cluster; none where formatting has left none.

    Those in the snapshot count more, as in Kafka.

    Args:
        home: The directory that holds, or will hold, the metadata log.

    Raises:
        DataDirectoryError: They cannot be read.
    """
    return _records(bootstrap_snapshot(home)) or _records(home / BOOTSTRAP_CHECKPOINT)


def _records(path: Path) -> list[MetadataRecord]:
    try:
        return decode_bootstrap(path.read_bytes())
    except FileNotFoundError:
        return []
    except SnapshotError as error:
        raise DataDirectoryError(
            f"{path} is damaged ({error}); copy it from another controller, format the directory again, or "
            "delete it to start with the features of this version"
        ) from error
