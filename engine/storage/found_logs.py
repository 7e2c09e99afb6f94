"""Finds the log directory of each partition at start, and the leftovers of interrupted moves."""

from typing import Final, NamedTuple

from bowstring.engine import event_log
from bowstring.engine.metadata.image import ClusterImage, TopicImage
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directories import NO_DIRECTORY, LogDirectories
from bowstring.engine.storage.log_directory import (
    METADATA_PARTITION_DIRECTORY,
    LogDirectory,
    partition_directory,
)

PartitionKey = tuple[str, int]


class Future(NamedTuple):
    """A copy of a partition that was being moved into a directory when the broker stopped."""

    directory: LogDirectory
    name: str


class Places:
    """Content of the log directories.

    Attributes:
        live: Directory of each partition of the image; partitions in two directories are in `twice` instead.
        twice: Both directories of a partition whose move was interrupted between its two renames, the new one
            first.
        futures: Unfinished copies, by partition.
        strays: Directories that belong to no partition of the image.
        has_other_brokers: Whether another broker is registered, which may have the records of a partition.
    """

    def __init__(self, *, has_other_brokers: bool = False) -> None:
        self.has_other_brokers = has_other_brokers
        self.live: dict[PartitionKey, LogDirectory] = {}
        self.twice: dict[PartitionKey, tuple[LogDirectory, LogDirectory]] = {}
        self.futures: dict[PartitionKey, Future] = {}
        self.strays: list[tuple[LogDirectory, str, int]] = []


def assigned_id(topic: TopicImage, index: int, node_id: int) -> bytes:
    """Returns the directory id that the metadata log assigns to this broker's replica (KIP-858)."""
    partition = topic.partitions[index]
    place = partition.replicas.index(node_id)
    return partition.directories[place] if place < len(partition.directories) else bytes(16)


def find_places(directories: LogDirectories, image: ClusterImage, node_id: int) -> Places:
    """Searches every directory that could be opened.

    Raises:
        DataDirectoryError: A partition is in two directories, and neither is the assigned one.
    """
    places = Places(has_other_brokers=any(each != node_id for each in image.brokers))
    found: dict[PartitionKey, list[LogDirectory]] = {}
    for directory in directories.opened:
        for name in directory.partition_directories():
            if name == METADATA_PARTITION_DIRECTORY:
                continue
            topic, _, number = name.rpartition("-")
            key = topic, int(number)
            known = image.topics.get(topic)
            is_its = belongs(directory, known, name, key[1])
            if is_its and _is_replica(known, key[1], node_id):
                found.setdefault(key, []).append(directory)
            else:
                places.strays.append((directory, *key))
        for name, topic, index in directory.future_directories():
            known = image.topics.get(topic)
            if known is not None and index < len(known.partitions) and (topic, index) not in places.futures:
                places.futures[topic, index] = Future(directory, name)
            else:
                event_log.warning(
                    "a future replica belongs to no partition and is left in place; delete the directory "
                    "if its records are not needed",
                    directory=name,
                )
    for key, homes in found.items():
        if len(homes) == 1:
            places.live[key] = homes[0]
        else:
            places.twice[key] = _both(key, homes, assigned_id(image.topics[key[0]], key[1], node_id))
    return places


def _is_replica(topic: TopicImage | None, index: int, node_id: int) -> bool:
    """Returns whether this node has a replica: another may have got it while this one was down."""
    return topic is not None and node_id in topic.partitions[index].replicas


def _both(key: PartitionKey, homes: list[LogDirectory], assigned: bytes) -> tuple[LogDirectory, LogDirectory]:
    """Orders the two directories of a partition. A move renames only after the metadata log names the new
    directory, so with any other assignment somebody has copied the directory by hand.
    """
    first = next((home for home in homes if home.directory_id == assigned), None)
    if first is None or len(homes) > 2:
        name = partition_directory(*key)
        raise DataDirectoryError(
            f"partition {name} is in more than one log directory: "
            f"{', '.join(str(home.path / name) for home in homes)}; remove the copy that is not wanted (if "
            "a directory failed recently, the copy in it) and start again"
        )
    return first, next(home for home in homes if home is not first)


def belongs(directory: LogDirectory, topic: TopicImage | None, name: str, index: int) -> bool:
    """Returns whether a directory belongs to a partition of this topic, and not to an earlier topic of the
    same name.
    """
    if topic is None or index >= len(topic.partitions):
        return False
    # A crash may have come between the deletion of a topic of this name and the renaming; or the topic was
    # deleted, and another one created, while this node was down.
    found_id = directory.read_partition_metadata(name)
    return found_id is None or found_id == topic.id


_ELSEWHERE: Final = "assigned to a log directory that is not online"


def where_to_open(
    directories: LogDirectories, places: Places, key: PartitionKey, assigned: bytes
) -> LogDirectory | str | None:
    """Returns the directory to open a partition in, the reason when it is offline, or None when it must be
    created.

    A partition is opened where it is found. Exception: if its assigned directory is offline, it stays
    offline, because that directory may have failed during a move and hold the newest records.

    A broker that is started on an empty disk creates its replicas, which then fetch from others. The only
    broker does not: the assigned directory may be one that log.dirs leaves out by mistake.
    """
    target = directories.by_id(assigned)
    home = places.live.get(key)
    if home is not None:
        # The id of a directory that could not be opened is unknown.
        unknown = assigned not in NO_DIRECTORY and target is None
        return _ELSEWHERE if unknown and not directories.all_online else home
    future = places.futures.get(key)
    if future is not None and target is future.directory:
        return target
    if target is not None:
        return None
    may_create = assigned in NO_DIRECTORY or places.has_other_brokers
    return None if directories.all_online and may_create else _ELSEWHERE
