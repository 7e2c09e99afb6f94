"""Holds the logs that moves have replaced, until their directories no longer have the partitions' names.

A thread renames the directories of both logs meanwhile. A partition that is removed at that time keeps its
two directories until the thread is done: renamed by two at once, one of them would stay under the partition's
name, or the directory of a new topic of that name would be deleted.
"""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.storage.found_logs import PartitionKey


class _Leaving(NamedTuple):
    log: PartitionLog
    over: asyncio.Event


class Removed(NamedTuple):
    """A removed partition whose directories are still to be renamed.

    Attributes:
        logs: The partition's log, and the one that it has replaced.
        due: When to unlink them (time.monotonic).
        over: Set once no other thread renames the directories.
    """

    key: PartitionKey
    logs: tuple[PartitionLog, PartitionLog]
    due: float
    over: asyncio.Event


class LeavingLogs:
    """Replaced logs by partition. Changed on the control loop; checkpoints read it on other threads."""

    def __init__(self) -> None:
        self._leaving: dict[PartitionKey, _Leaving] = {}
        self._removed: list[Removed] = []

    def add(self, key: PartitionKey, log: PartitionLog, over: asyncio.Event) -> None:
        """Notes that a move has replaced a log; `over` is set once it renames no more directories."""
        self._leaving[key] = _Leaving(log, over)

    def discard(self, key: PartitionKey) -> None:
        """Forgets a log whose directory has another name now."""
        self._leaving.pop(key, None)

    def __iter__(self) -> Iterator[tuple[PartitionKey, PartitionLog]]:
        for key, each in list(self._leaving.items()):
            yield key, each.log

    def remove(self, key: PartitionKey, log: PartitionLog, due: float) -> Removed | None:
        """Takes a removed partition. None: it is not being moved, so the caller renames its directory."""
        leaving = self._leaving.pop(key, None)
        if leaving is None:
            return None
        self._removed.append(Removed(key, (log, leaving.log), due, leaving.over))
        return self._removed[-1]

    async def ended(self) -> list[Removed]:
        """Waits for the moves of partitions that are removed now, and returns those that have ended. The
        caller renames their directories before others have their turn.
        """
        for each in list(self._removed):
            await each.over.wait()
        ended = [each for each in self._removed if each.over.is_set()]
        self._removed = [each for each in self._removed if not each.over.is_set()]
        return ended
