"""Creates the logs of new partitions, many at once."""

import errno
import itertools
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bowstring._native.disk.directory_health import is_device_error
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.storage.log_directory import STRAY_SUFFIX, LogDirectory, partition_metadata
from bowstring.engine.storage.open_files import with_reserve

# Created without the GIL.
_LOGS_AT_ONCE: Final = 128


class NewLog:
    """A partition that gets a log; no home: every directory has failed."""

    def __init__(
        self, topic: TopicImage, index: int, config: dict[str, int], home: LogDirectory | None
    ) -> None:
        self.topic = topic
        self.index = index
        self.config = config
        self.home = home
        self.log: PartitionLog | None = None


def create_all(work: list[NewLog]) -> Exception | None:
    """Creates logs until one fails, and returns its failure."""
    with_home = [each for each in work if each.home is not None]
    for (home, _), group in itertools.groupby(with_home, lambda each: (each.home, id(each.config))):
        assert home is not None
        alike = list(group)
        for at in range(0, len(alike), _LOGS_AT_ONCE):
            failure = _create_some(home, alike[at : at + _LOGS_AT_ONCE])
            if failure is not None:
                return failure
    return None


def _create_some(home: LogDirectory, work: list[NewLog]) -> Exception | None:
    """Creates logs of one directory and one config until one fails, and returns its failure."""
    # Not at start: a broker without partitions does not need it.
    from bowstring._native.log.many_logs import create_logs

    while work:
        places = [
            (home.partition_path(each.topic.name, each.index), partition_metadata(each.topic.id))
            for each in work
        ]
        made, failure = create_logs(places, work[0].config, health=home.health)
        for each, log in zip(work, made, strict=False):
            each.log = log
        if failure is None:
            return None
        if not isinstance(failure, OSError):
            return failure
        work = work[len(made) :]
        if failure.errno != errno.EEXIST:
            path = places[len(made)][0]
            _take_back(Path(path))  # a start would open it as the partition, without its topic id
            if is_device_error(failure.errno or 0):
                home.health.fail(failure.errno or 0, "creating a partition", path)
            return failure
        # A crash came between the deletion of a topic and the renaming of its directories.
        try:
            home.retire(work[0].topic.name, work[0].index, STRAY_SUFFIX)
        except OSError as error:
            return error
    return None


def take_back_all(work: Iterable[NewLog], home: LogDirectory) -> None:
    """Removes the new logs of a directory, which could not be made durable."""
    for each in work:
        if each.log is not None and each.home is home:
            log, each.log = each.log, None
            with suppress(LogError):
                log.close(sync=False)
            _take_back(Path(log.directory))


def _take_back(path: Path) -> None:
    """Removes a directory that was just created, if possible."""
    with suppress(OSError):
        for name in with_reserve(lambda: os.listdir(path)):
            os.unlink(path / name)
        os.rmdir(path)
