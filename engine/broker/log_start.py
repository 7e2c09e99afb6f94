"""Opening the partitions that are there at start, each where its newest records are."""

import os
from collections.abc import Mapping

from bowstring._native.log import LogError, PartitionLog
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    sync_directory,
)
from bowstring.engine.broker.data_directory import STRAY_SUFFIX, DataDirectory, partition_directory
from bowstring.engine.broker.log_directories import LogDirectories
from bowstring.engine.broker.log_placement import PartitionKey, Places


class Opener:
    """Opens logs that are there already, with what their directory's checkpoints say. Threads may share one.

    A move between directories that was cut off (see log_moves) leaves up to two copies of a partition. They
    share one history, so the longer is the right one; with equal ends it is the one the metadata log names.

    Attributes:
        unfinished: Copies that must be carried on with; the others were settled.
    """

    def __init__(self, directories: LogDirectories, places: Places) -> None:
        self._places = places
        self.unfinished = dict(places.futures)
        self._recovery_points: dict[DataDirectory, Mapping[PartitionKey, int]] = {}
        self._log_starts: dict[DataDirectory, Mapping[PartitionKey, int]] = {}
        for directory in directories.opened:
            self._recovery_points[directory] = read_offsets(directory.path / RECOVERY_POINTS)
            self._log_starts[directory] = read_offsets(directory.path / LOG_START_OFFSETS)

    def checkpoints(self) -> dict[tuple[DataDirectory, str], dict[PartitionKey, int]]:
        """What the checkpoint files hold; those that are missing, empty or damaged are left out."""
        read = ((RECOVERY_POINTS, self._recovery_points), (LOG_START_OFFSETS, self._log_starts))
        return {
            (directory, name): dict(offsets)
            for name, of_directories in read
            for directory, offsets in of_directories.items()
            if offsets
        }

    def open(self, directory: DataDirectory, key: PartitionKey, config: dict[str, int]) -> PartitionLog:
        """The log of a partition whose place `directory` is, or was before a move of it was cut off.

        Raises:
            OSError, LogError: It could not be opened.
        """
        name = partition_directory(*key)
        if key in self._places.twice:
            return self._one_of_two(*self._places.twice[key], key, config)
        future = self.unfinished.get(key)
        if key not in self._places.live:
            assert future is not None
            # The move was over but for this name: the old copy's had changed already.
            del self.unfinished[key]
            _rename(directory, future.name, name)
            return self._open_in(directory, name, key, config)
        log = self._open_in(directory, name, key, config)
        if future is None or future.directory is directory:
            return log
        return self._or_future(log, directory, key, config)

    def _open_in(
        self, directory: DataDirectory, name: str, key: PartitionKey, config: dict[str, int]
    ) -> PartitionLog:
        return PartitionLog(
            f"{directory.path}/{name}",
            config,
            recovery_point=self._recovery_points[directory].get(key, 0),
            clean_shutdown=directory.was_clean,
            log_start_offset=self._log_starts[directory].get(key, 0),
            health=directory.health,
        )

    def _one_of_two(
        self, assigned: DataDirectory, other: DataDirectory, key: PartitionKey, config: dict[str, int]
    ) -> PartitionLog:
        """The crash came between the two renames that end a move."""
        name = partition_directory(*key)
        new = self._open_in(assigned, name, key, config)
        old = self._open_in(other, name, key, config)
        if new.log_end_offset >= old.log_end_offset:
            _set_aside(old, other, key)
            return new
        _set_aside(new, assigned, key)
        return old

    def _or_future(
        self, log: PartitionLog, directory: DataDirectory, key: PartitionKey, config: dict[str, int]
    ) -> PartitionLog:
        """The copy, when it had taken the log's place already and its directory was not renamed yet."""
        future = self.unfinished[key]
        try:
            # Unclean: whether its end was written in order, nobody knows.
            copy = PartitionLog(
                f"{future.directory.path}/{future.name}",
                config,
                recovery_point=0,
                clean_shutdown=False,
                log_start_offset=log.log_start_offset,
                health=future.directory.health,
            )
        except LogError as error:
            log_lines.warning("a copy of a partition cannot be read; it is made anew", detail=str(error))
            return log
        end = copy.log_end_offset
        if end <= log.log_end_offset:
            copy.close(sync=False)
            return log
        del self.unfinished[key]
        copy.close(sync=True)
        name = partition_directory(*key)
        _set_aside(log, directory, key)
        _rename(future.directory, future.name, name)
        return self._open_in(future.directory, name, key, config)


def _rename(directory: DataDirectory, old: str, new: str) -> None:
    os.rename(directory.path / old, directory.path / new)
    sync_directory(directory.path)


def _set_aside(log: PartitionLog, directory: DataDirectory, key: PartitionKey) -> None:
    log.close(sync=False)
    aside = directory.retired_name(*key, STRAY_SUFFIX)
    _rename(directory, partition_directory(*key), aside)
    log_lines.warning(
        "a partition was being moved when the broker stopped; its older copy is set aside",
        partition=partition_directory(*key),
        directory=str(directory.path / aside),
    )
