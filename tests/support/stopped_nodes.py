"""The metadata log of a stopped node that is a cluster of its own: what a start finds in it, and what others leave."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.store.reader import MetadataState, read_metadata
from bowstring.engine.quorum.offline_changes import OfflineChanges
from bowstring.engine.quorum.own_cluster import with_itself
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.quorum.settings import quorum_settings
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY, LogDirectory
from bowstring.protocol.schema import MetadataRecord

NODE_ID = 1


def metadata_of(directory: LogDirectory) -> MetadataState:
    """The content of the log; nothing in a new directory."""
    path = directory.path / METADATA_PARTITION_DIRECTORY
    if not path.exists():
        return MetadataState(ClusterImage(), QuorumFacts(), 0, 0, 0)
    return read_metadata(path)


@contextmanager
def led(directory: LogDirectory) -> Iterator[OfflineChanges]:
    """Leads the log of an open directory."""
    leader = OfflineChanges(directory, metadata_of(directory))
    try:
        yield leader
    finally:
        leader.close()


def append_records(path: Path, *batches: Sequence[MetadataRecord]) -> None:
    """Writes batches, of records that need not apply. A directory that was stopped cleanly stays so."""
    directory = LogDirectory(path)
    directory.open(NODE_ID)
    with led(directory) as leader:
        for records in batches:
            leader.append(records)
    if directory.was_clean:
        directory.mark_clean(-1)
    directory.close()


def quorum_of(directory: LogDirectory, **configs: str) -> QuorumService:
    """The replica of a node alone, with configs (underscores for dots)."""
    values = BrokerConfigs({name.replace("_", "."): value for name, value in configs.items()})
    settings = with_itself(quorum_settings(values, NODE_ID), NODE_ID)
    return QuorumService(directory, values, settings, node_id=NODE_ID, is_own_cluster=True)


def image_at_start(directory: LogDirectory) -> ClusterImage:
    """What a node alone finds when it opens the log of an open directory."""
    quorum = quorum_of(directory)
    try:
        quorum.open()
        return quorum.image
    finally:
        quorum.close()
