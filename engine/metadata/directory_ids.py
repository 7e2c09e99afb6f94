"""Defines the meaning of log directory ids: whether a replica's directory is online, where a new one goes
(KIP-858).
"""

from typing import Final

from bowstring.engine.metadata.image import BrokerImage, PartitionImage

MIGRATING: Final = bytes(16)
"""The broker's directories are not known yet, because they are not in its registration."""

UNASSIGNED: Final = bytes(15) + b"\x01"
"""The broker has not chosen a directory yet."""

LOST: Final = bytes(15) + b"\x02"
"""The replica was in a directory that has failed; which one is unknown."""

_RESERVED: Final = 100


def is_reserved(directory: bytes) -> bool:
    """Returns whether an id has a meaning of its own and names no directory."""
    return directory[:8] == bytes(8) and int.from_bytes(directory[8:], signed=True) < _RESERVED


def is_online(broker: BrokerImage, directory: bytes) -> bool:
    """Returns whether a replica in `directory` of a broker can be read."""
    # A registration without directories is from a metadata.version before them.
    return (
        directory in broker.directories
        or directory in (UNASSIGNED, MIGRATING)
        or (not broker.directories and directory != LOST)
    )


def holds_online(broker: BrokerImage, partition: PartitionImage) -> bool:
    """Returns whether the directory of a broker's replica is online."""
    if not partition.directories:
        return True
    return is_online(broker, partition.directories[partition.replicas.index(broker.id)])


def default_directory(broker: BrokerImage | None) -> bytes:
    """Returns the directory of a new replica: the broker's only one, or none so that the broker chooses."""
    if broker is None:
        return UNASSIGNED
    if not broker.directories:
        return MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED


def takes_replicas(broker: BrokerImage) -> bool:
    """Returns whether a broker has a directory that is not cordoned (KIP-1066)."""
    return not broker.directories or any(each not in broker.cordoned for each in broker.directories)
