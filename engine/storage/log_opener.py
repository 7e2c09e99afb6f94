"""Opens existing partitions at start, each from the directory with its newest records."""

import os
from collections.abc import Callable, Iterable, Mapping

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine import event_log
from bowstring.engine.storage.checkpoints import (
    LOG_START_OFFSETS,
    LOST_LOGS,
    RECOVERY_POINTS,
    read_offsets,
    sync_directory,
)
from bowstring.engine.storage.found_logs import PartitionKey, Places
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    LogDirectory,
    partition_directory,
)


class LogOpener:
    """Opens existing logs with the offsets from their directory's checkpoints. Threads may share one opener.

    An interrupted move between directories (see replica_moves) leaves up to two copies of a partition. The
    one with the newer last record is right: of a later leader epoch (the other lacks a truncation), or else
    the longer one. If both end alike it is the one that the metadata log names.

    Attributes:
        unfinished: Copies whose move must be resumed; all others were resolved.
    """

    def __init__(self, directories: LogDirectories, places: Places) -> None:
        self._places = places
        self.unfinished = dict(places.futures)
        self._recovery_points: dict[LogDirectory, Mapping[PartitionKey, int]] = {}
        self._log_starts: dict[LogDirectory, Mapping[PartitionKey, int]] = {}
        self._marked: dict[LogDirectory, Mapping[PartitionKey, int]] = {}
        self._without_points: set[LogDirectory] = set()
        self._gone: dict[PartitionKey, LogDirectory] = {}
        self._earlier: dict[LogDirectory, set[str]] = {}
        self._met_earlier = False
        for directory in directories.opened:
            if not (directory.path / RECOVERY_POINTS).exists():
                self._without_points.add(directory)
            self._recovery_points[directory] = read_offsets(directory.path / RECOVERY_POINTS)
            self._log_starts[directory] = read_offsets(directory.path / LOG_START_OFFSETS)
            self._marked[directory] = read_offsets(directory.path / LOST_LOGS)

    def checkpoints(self) -> dict[tuple[LogDirectory, str], dict[PartitionKey, int]]:
        """Returns the content of the checkpoint files; missing, empty or damaged ones are left out."""
        read = ((RECOVERY_POINTS, self._recovery_points), (LOG_START_OFFSETS, self._log_starts))
        return {
            (directory, name): dict(offsets)
            for name, of_directories in read
            for directory, offsets in of_directories.items()
            if offsets
        }

    def open(self, directory: LogDirectory, key: PartitionKey, config: dict[str, int]) -> PartitionLog:
        """Opens the log of a partition that is in `directory`, or was there before an interrupted move.

        Raises:
            OSError, LogError: The log could not be opened.
        """
        name = partition_directory(*key)
        if key in self._places.twice:
            return self._one_of_two(*self._places.twice[key], key, config)
        future = self.unfinished.get(key)
        if key not in self._places.live:
            assert future is not None
            # The move was complete except for this rename: the old copy already had its new name.
            del self.unfinished[key]
            _rename(directory, future.name, name)
            return self._open_in(directory, name, key, config)
        log = self._open_in(directory, name, key, config)
        if future is None or future.directory is directory:
            return log
        return self._or_future(log, directory, key, config)

    def _open_in(
        self, directory: LogDirectory, name: str, key: PartitionKey, config: dict[str, int]
    ) -> PartitionLog:
        return PartitionLog(
            f"{directory.path}/{name}",
            config,
            recovery_point=self._recovery_points[directory].get(key, 0),
            clean_shutdown=directory.was_clean,
            log_start_offset=self._log_starts[directory].get(key, 0),
            health=directory.health,
        )

    def open_many(
        self, directory: LogDirectory, keys: list[PartitionKey], config: dict[str, int]
    ) -> list[PartitionLog | LogError]:
        """Opens the logs of partitions that are in `directory` and nowhere else."""
        # Not at start: a broker without partitions does not need it.
        from bowstring._native.log.many_logs import open_logs

        points, starts = self._recovery_points[directory], self._log_starts[directory]
        places = [(directory.partition_path(*key), points.get(key, 0), starts.get(key, 0)) for key in keys]
        return open_logs(places, config, clean_shutdown=directory.was_clean, health=directory.health)

    def _one_of_two(
        self, assigned: LogDirectory, other: LogDirectory, key: PartitionKey, config: dict[str, int]
    ) -> PartitionLog:
        """Chooses between two copies after a crash between the two renames that end a move."""
        name = partition_directory(*key)
        new = self._open_in(assigned, name, key, config)
        old = self._open_in(other, name, key, config)
        if _newest(new) >= _newest(old):
            _set_aside(old, other, key)
            return new
        _set_aside(new, assigned, key)
        return old

    def _or_future(
        self, log: PartitionLog, directory: LogDirectory, key: PartitionKey, config: dict[str, int]
    ) -> PartitionLog:
        """Opens the copy instead if it had already replaced the log and only its directory was not renamed
        yet.
        """
        future = self.unfinished[key]
        try:
            # Opens as unclean: the order in which its end was written is unknown.
            copy = PartitionLog(
                f"{future.directory.path}/{future.name}",
                config,
                recovery_point=0,
                clean_shutdown=False,
                log_start_offset=log.log_start_offset,
                health=future.directory.health,
            )
        except LogError as error:
            event_log.warning(
                "the future replica of a partition cannot be read; the move starts again from the beginning",
                detail=str(error),
            )
            return log
        if _newest(copy) <= _newest(log):
            copy.close(sync=False)
            return log
        del self.unfinished[key]
        copy.close(sync=True)
        name = partition_directory(*key)
        _set_aside(log, directory, key)
        _rename(future.directory, future.name, name)
        return self._open_in(future.directory, name, key, config)

    # ------------------------------------------------------------ logs that are gone

    @property
    def is_superseded(self) -> bool:
        """Whether recovery points say less than the logs: a directory has none, because no broker has opened
        it before or it was emptied, or has those of an earlier topic.
        """
        return bool(self._without_points) or self._met_earlier

    def note_created(self, directory: LogDirectory | None, key: PartitionKey) -> None:
        """Notes a partition that has no directory and is created empty in this one."""
        event_log.warning(
            "a partition has no directory and is created empty; unless its topic is new, stop the "
            "broker and restore the directory from a copy",
            partition=partition_directory(*key),
            directory=str(directory.path) if directory is not None else None,
        )
        if directory is not None and self._was_there(directory, key):
            self._gone[key] = directory

    def marks(
        self, created: Iterable[tuple[LogDirectory, PartitionKey]]
    ) -> dict[LogDirectory, dict[PartitionKey, int]]:
        """Returns what `LOST_LOGS` must have before these partitions are created empty: a broker that ends
        before it has reported a loss finds it again. Directories whose file has all that are left out.
        """
        wanted = {directory: dict(marked) for directory, marked in self._marked.items()}
        for directory, key in created:
            if self._was_there(directory, key):
                wanted[directory][key] = self._recovery_points[directory].get(key, 0)
        return {each: marks for each, marks in wanted.items() if marks != self._marked[each]}

    def note_opened(self, directory: LogDirectory, key: PartitionKey, log: PartitionLog) -> None:
        """Notes a log that an earlier start has created in place of a lost one, if nothing is in it yet. Its
        recovery point alone would not say so: a follower that cuts its log to its beginning may end before
        the next checkpoint.
        """
        point = self._marked[directory].get(key, -1)
        if log.log_end_offset <= point and _is_empty(log) and not self._was_of_another(directory, key):
            self._gone[key] = directory

    def _was_there(self, directory: LogDirectory, key: PartitionKey) -> bool:
        """Whether a partition that has no directory had one."""
        return directory in self._without_points or (
            key in self._recovery_points[directory] and not self._was_of_another(directory, key)
        )

    def _was_of_another(self, directory: LogDirectory, key: PartitionKey) -> bool:
        """Whether a recovery point is of an earlier topic of the name. Its directory is still there: it is
        unlinked once the recovery points are without it.
        """
        if directory not in self._earlier:
            deleted = {name.rpartition(".")[0] for name in directory.deleted_directories()}
            strays = {
                partition_directory(topic, index)
                for home, topic, index in self._places.strays
                if home is directory
            }
            self._earlier[directory] = deleted | strays
        stems = partition_directory(*key), directory.retired_name(*key, DELETED_SUFFIX).rpartition(".")[0]
        was = not self._earlier[directory].isdisjoint(stems)
        self._met_earlier |= was
        return was

    def lost(self, log_of: Callable[[str, int], PartitionLog | None]) -> list[PartitionKey]:
        """Returns the partitions whose log was gone, and that the write-ahead log has not put back whole."""
        return [key for key in self._gone if not self._is_whole(key, log_of(*key))]

    def _is_whole(self, key: PartitionKey, log: PartitionLog | None) -> bool:
        """Whether nothing of a log was below its recovery point: the write-ahead log has the rest."""
        start = self._log_starts[self._gone[key]].get(key, 0)
        point = self._recovery_points[self._gone[key]].get(key, start + 1)
        return log is not None and point <= start < log.log_end_offset


def _is_empty(log: PartitionLog) -> bool:
    return bool(log.log_start_offset == log.log_end_offset)


def _newest(log: PartitionLog) -> tuple[int, int]:
    """Returns the leader epoch of a log's last record, and the log's end."""
    return log.epoch_for_offset(log.log_end_offset - 1), log.log_end_offset


def _rename(directory: LogDirectory, old: str, new: str) -> None:
    os.rename(directory.path / old, directory.path / new)
    sync_directory(directory.path)


def _set_aside(log: PartitionLog, directory: LogDirectory, key: PartitionKey) -> None:
    log.close(sync=False)
    aside = directory.retired_name(*key, STRAY_SUFFIX)
    _rename(directory, partition_directory(*key), aside)
    event_log.warning(
        "the broker stopped during the move of a partition; the partition uses the newer copy, and the "
        "older one is renamed with the suffix -stray",
        partition=partition_directory(*key),
        directory=str(directory.path / aside),
    )
