"""Marks logs that are gone when a broker starts, until it has reported that to the controller.

Such a log is created empty, and looks like any empty log from then on. The file `LOST_LOGS` of its directory
says what it is: a broker that ends before it has reported the loss finds it again (`LogOpener.note_opened`).
"""

from collections.abc import Iterable
from functools import partial

from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.storage.checkpoints import LOST_LOGS, write_offsets
from bowstring.engine.storage.found_logs import PartitionKey, Places, assigned_id, where_to_open
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_opener import LogOpener


def mark(
    directories: LogDirectories,
    opener: LogOpener,
    places: Places,
    partitions: Iterable[tuple[TopicImage, int]],
    node_id: int,
) -> None:
    """Marks those of a broker's partitions whose logs are gone. Call before any of them is created.

    Raises:
        OSError: A file could not be written, and not for an error of its device.
    """
    created: list[tuple[LogDirectory, PartitionKey]] = []
    for topic, index in partitions:
        key, assigned = (topic.name, index), assigned_id(topic, index, node_id)
        home = directories.by_id(assigned)
        if home is None or key in places.live or key in places.twice:
            continue
        if where_to_open(directories, places, key, assigned) is None:
            created.append((home, key))
    for home, marks in opener.marks(created).items():
        write = partial(write_offsets, home.path / LOST_LOGS, marks)
        directories.guard(home, f"writing {LOST_LOGS}", write)


def forget(directories: LogDirectories) -> None:
    """Removes the marks, once what was lost is reported. Slow: not for the control thread.

    Raises:
        OSError: A file could not be removed, and not for an error of its device.
    """
    for home in directories.opened:
        if (path := home.path / LOST_LOGS).exists():
            directories.guard(home, f"removing {LOST_LOGS}", path.unlink)
