"""Which log directory each partition is in, as found at start; and what cut-off moves have left there."""

from typing import Final, NamedTuple

from bowstring.engine.broker import log_lines
from bowstring.engine.broker.data_directory import (
    METADATA_PARTITION_DIRECTORY,
    DataDirectory,
    partition_directory,
)
from bowstring.engine.broker.directory_lock import DataDirectoryError
from bowstring.engine.broker.log_directories import NO_DIRECTORY, LogDirectories
from bowstring.engine.metadata.image import ClusterImage, TopicImage

PartitionKey = tuple[str, int]


class Future(NamedTuple):
    """A copy of a partition that was on its way into a directory when the broker stopped."""

    directory: DataDirectory
    name: str


class Places:
    """What the directories hold.

    Attributes:
        live: Where each partition of the image is; those in two places are in `twice` instead.
        twice: Both places of a partition whose move was cut off between its two renames, the new one first.
        futures: Copies under way, by partition.
        strays: Directories that belong to no partition of the image.
    """

    def __init__(self) -> None:
        self.live: dict[PartitionKey, DataDirectory] = {}
        self.twice: dict[PartitionKey, tuple[DataDirectory, DataDirectory]] = {}
        self.futures: dict[PartitionKey, Future] = {}
        self.strays: list[tuple[DataDirectory, str, int]] = []


def assigned_id(topic: TopicImage, index: int, node_id: int) -> bytes:
    """The id of the directory that the metadata log gives this broker's replica (KIP-858)."""
    partition = topic.partitions[index]
    place = partition.replicas.index(node_id)
    return partition.directories[place] if place < len(partition.directories) else bytes(16)


def find_places(directories: LogDirectories, image: ClusterImage, node_id: int) -> Places:
    """Looks through every directory that could be opened.

    Raises:
        DataDirectoryError: A partition is in two directories, and neither is the one it is assigned to.
    """
    places = Places()
    found: dict[PartitionKey, list[DataDirectory]] = {}
    for directory in directories.opened:
        for name in directory.partition_directories():
            if name == METADATA_PARTITION_DIRECTORY:
                continue
            topic, _, number = name.rpartition("-")
            key = topic, int(number)
            if belongs(directory, image.topics.get(topic), name, key[1]):
                found.setdefault(key, []).append(directory)
            else:
                places.strays.append((directory, *key))
        for name, topic, index in directory.future_directories():
            known = image.topics.get(topic)
            if known is not None and index < len(known.partitions) and (topic, index) not in places.futures:
                places.futures[topic, index] = Future(directory, name)
            else:
                log_lines.warning("a copy of a partition belongs to none; it stays as it is", directory=name)
    for key, homes in found.items():
        if len(homes) == 1:
            places.live[key] = homes[0]
        else:
            places.twice[key] = _both(key, homes, assigned_id(image.topics[key[0]], key[1], node_id))
    return places


def _both(
    key: PartitionKey, homes: list[DataDirectory], assigned: bytes
) -> tuple[DataDirectory, DataDirectory]:
    """The renames that end a move come after the metadata log has the new place; else somebody copied it."""
    first = next((home for home in homes if home.directory_id == assigned), None)
    if first is None or len(homes) > 2:
        name = partition_directory(*key)
        raise DataDirectoryError(
            f"partition {name} is in more than one log directory: "
            f"{', '.join(str(home.path / name) for home in homes)}; take away the copy that is not wanted "
            "(if a directory failed lately, that is the one in it) and start again"
        )
    return first, next(home for home in homes if home is not first)


def belongs(directory: DataDirectory, topic: TopicImage | None, name: str, index: int) -> bool:
    """Whether a directory is that of a partition of this topic, and not of an earlier one of its name."""
    if topic is None or index >= len(topic.partitions):
        return False
    if directory.was_clean:
        return True
    # A crash may have come between the deletion of a topic of this name and the renaming.
    found_id = directory.read_partition_metadata(name)
    return found_id is None or found_id == topic.id


_ELSEWHERE: Final = "assigned to a log directory that is not online"


def where_to_open(
    directories: LogDirectories, places: Places, key: PartitionKey, assigned: bytes
) -> DataDirectory | str | None:
    """The directory to open a partition in; why not, when it is offline; None when it must be made anew.

    A partition is where it is found. One whose assigned directory is offline is not: its newest records may
    be there, when that directory failed while the partition was moved into it.
    """
    target = directories.by_id(assigned)
    home = places.live.get(key)
    if home is not None:
        # A directory that could not be opened keeps its id to itself.
        unknown = assigned not in NO_DIRECTORY and target is None
        return _ELSEWHERE if unknown and not directories.all_online else home
    future = places.futures.get(key)
    if future is not None and target is future.directory:
        return target
    if target is not None:
        return None
    if assigned in NO_DIRECTORY and directories.all_online:
        return None
    return _ELSEWHERE
