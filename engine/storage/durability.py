"""Runs commit mode, in which an acknowledged record is on the medium (`bowstring.durability`).

Holds the set of partitions in commit mode and the write-ahead log of each log directory that has such
partitions. Replays the write-ahead logs at start, attaches and detaches partition logs, and takes checkpoints
on a timer.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bowstring._native.log import durability
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.storage.directory_wal import DirectoryWal, sync_logs

if TYPE_CHECKING:
    from bowstring._native.log.wal_replay import ReplayResult
    from bowstring._native.wal.write_ahead_log import WalStats

COMMIT: Final = "commit"
# Between two looks whether the entry of a log that left is on the medium.
_LEFT_LOOK_S: Final = 0.005

PartitionId = tuple[bytes, int]  # topic id and index
LogsById = dict[PartitionId, PartitionLog]


class Durability:
    """The partitions in commit mode and the write-ahead logs of the broker's directories.

    Attributes:
        when_stuck: Called on the control loop when `waiting_logs` has changed.
        when_failed: Called on the control loop with a directory whose write-ahead log has ended, and the
            errno: its partitions accept no more records.
    """

    def __init__(
        self, configs: BrokerConfigs, plane: DataPlane, when_checkpointed: Callable[[], None]
    ) -> None:
        self._configs = configs
        self._plane = plane
        self._when_checkpointed = when_checkpointed
        self._wals: dict[str, DirectoryWal] = {}
        self._last_frames: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.when_stuck: Callable[[], None] = lambda: None
        self.when_failed: Callable[[str, int], None] = lambda path, error: None

    @property
    def wals(self) -> dict[str, DirectoryWal]:
        """The write-ahead logs, keyed by directory path."""
        return self._wals

    # ------------------------------------------------------------ start

    def recover(self, paths: Iterable[Path], logs: LogsById, committed: Collection[PartitionId]) -> None:
        """Replays the write-ahead logs after an unclean stop, to restore records that partition files lack.

        Replays all of them before syncing anything: a partition that has moved has records in several
        write-ahead logs, and synced data counts as durable.

        Args:
            paths: The log directories that were not closed cleanly.
            logs: The open logs, by topic id and partition.
            committed: The logs in commit mode. The content of their files is served from now on, so it must
                survive the next power failure, like the content of the write-ahead logs.

        Raises:
            WalError, LogError: A file could not be read or written; the message says what to do.
        """
        # Not at start: most starts follow a clean stop and replay nothing.
        from bowstring._native.log.replay import rewrite_unsynced
        from bowstring._native.log.wal_replay import replay, supersede

        results = replay(paths, logs)
        for path, result in results.items():
            self._tell(path, result, logs)
        replayed = {
            key
            for result in results.values()
            for key, (batches, _, skipped, *_) in result["logs"].items()
            if batches + skipped > 0
        }
        rewrite_unsynced([logs[key] for key in committed if key not in replayed])
        sync_logs(logs[key] for key in {*replayed, *committed} if key in logs)
        for path, result in results.items():
            if result["superseded"] is not None:
                supersede(path, *result["superseded"])
            self._last_frames[str(path)] = result["last_frame"]

    def _tell(self, path: Path, result: "ReplayResult", logs: LogsById) -> None:
        from bowstring._native.log.wal_replay import segment_numbers

        for key, (batches, _, _, missing, cut) in result["logs"].items():
            if cut is not None:
                event_log.info(
                    "records of a partition differ from the acknowledged ones in the write-ahead log and are "
                    "replaced by them; no action is needed",
                    partition=os.path.basename(logs[key].directory),
                    from_offset=cut,
                    batches_after=batches,
                )
            if missing is not None:
                event_log.error(
                    "records are missing after an unclean stop: they were acknowledged from the page "
                    "cache, or their file is damaged; restore them from a copy if they matter",
                    partition=os.path.basename(logs[key].directory),
                    first_offset=missing[0],
                    last_offset=missing[1] - 1,
                    batches_after=batches,
                )
        if segment_numbers(path):
            event_log.info(
                "write-ahead log replayed",
                directory=str(path),
                frames=result["frames"],
                bytes=result["bytes"],
            )

    def open(self, paths: Iterable[Path]) -> None:
        """Opens the write-ahead logs of the directories if topics are in commit mode by default."""
        if self._configs.topic_default("bowstring.durability") == COMMIT:
            for path in paths:
                self._wal(str(path))

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the threads of the write-ahead logs. Call on the control loop."""
        self._loop = loop
        for each in self._wals.values():
            each.start(loop)

    def _wal(self, path: str) -> DirectoryWal:
        found = self._wals.get(path)
        if found is None:
            from bowstring._native.log.wal_replay import survey

            last_frame = self._last_frames.get(path) or survey(path)
            found = DirectoryWal(Path(path), self._configs, self._plane, self._when_checkpointed, last_frame)
            found.when_stuck = self._stuck
            found.when_failed = lambda error: self.when_failed(path, error)
            self._wals[path] = found
            if self._loop is not None:
                found.start(self._loop)
        return found

    def _stuck(self) -> None:
        self.when_stuck()

    def waiting_logs(self) -> list[PartitionLog]:
        """Returns the logs whose records wait for room for their write-ahead log."""
        return [log for each in self._wals.values() for log in each.waiting_logs()]

    # ------------------------------------------------------------ partitions

    def wants_commit(self, overrides: Mapping[str, str]) -> bool:
        """Returns whether a topic's configs select commit mode."""
        return bool(self._configs.topic_value("bowstring.durability", overrides) == COMMIT)

    def join(self, topic_id: bytes, partition: int, log: PartitionLog) -> None:
        """Puts a log that is not yet served in commit mode. All its records must be on the medium."""
        wal = self._wal(os.path.dirname(log.directory))
        wal.add(log)
        durability.join(log, wal.wal, topic_id, partition)

    async def switch(
        self, topic: str, partition: int, log: PartitionLog, overrides: Mapping[str, str]
    ) -> None:
        """Changes the mode of a served log after a change of configs. Producers are not interrupted.

        Syncs the log before the change, so that the second sync, after the change, is short. Only after the
        second sync may the write-ahead log drop the records of a log that leaves commit mode.

        A log that joins commit mode also needs its recovery point in the checkpoint file. Deleted records
        below the recovery point may never have been synced. Recovery that looked for them would drop
        everything after them.

        Raises:
            LogError: The log could not be synced. It may be in either mode, and takes no more records.
            OSError: A checkpoint file could not be written.
        """
        wanted = self.wants_commit(overrides)
        if wanted == log.in_commit_mode:
            return
        loop = asyncio.get_running_loop()
        wal = self._wal(os.path.dirname(log.directory))
        wal.add(log)

        def sync() -> None:
            log.flush()
            if wanted:
                self._when_checkpointed()

        await loop.run_in_executor(None, sync)
        self._plane.set_durability(topic, partition, log, wal.wal if wanted else None)
        await loop.run_in_executor(None, sync)
        if not wanted:
            self.left(log)

    def prepare_move(self, path: Path, new: PartitionLog, old: PartitionLog) -> WriteAheadLog | None:
        """Returns the write-ahead log that `new` joins when it replaces `old`; None in os mode."""
        if not old.in_commit_mode:
            return None
        wal = self._wal(str(path))
        wal.add(new)
        wal.hold(new)
        return wal.wal

    def moved(self, topic: str, partition: int, new: PartitionLog) -> None:
        """Records that `new` has replaced another log of a served partition."""
        if new.in_commit_mode:
            self.when_durable(new, lambda: self._plane.durable(topic, partition), lambda: None)

    async def move_ended(self, old: PartitionLog, new: PartitionLog, stops: Callable[[], bool]) -> None:
        """Detaches a log that another one has replaced.

        The frames of the new one are kept until the old one's write-ahead log says, on the medium, that its
        entries no longer count: until then a replay begins with these, truncations too.

        Args:
            stops: Whether the broker stops. Then nothing is waited for, a full disk least of all, and the
                frames are kept.
        """
        frames = self.left(old)
        while any(wal.durable_frame < frame and wal.failure is None for wal, frame in frames):
            if stops():
                return
            await asyncio.sleep(_LEFT_LOOK_S)
        self.let_go(new)

    def let_go(self, new: PartitionLog) -> None:
        """Lets checkpoints free frames that `prepare_move` has kept."""
        for each in self._wals.values():
            each.let_go(new)

    def left(self, log: PartitionLog) -> list[tuple[WriteAheadLog, int]]:
        """Detaches a log whose records are all synced from the write-ahead log of its directory.

        Returns:
            The write-ahead logs that it left, each with the frame that says so.
        """
        frames = []
        for each in self._wals.values():
            if each.serves(log):
                frames.append((each.wal, durability.leave(log, each.wal)))
                each.discard(log)
        return frames

    def discard(self, log: PartitionLog) -> None:
        """Detaches a log that is about to be deleted."""
        for each in self._wals.values():
            each.discard(log)

    def when_durable(self, log: PartitionLog, done: Callable[[], None], failed: Callable[[], None]) -> None:
        """See `DirectoryWal.when_durable`. The log must be in commit mode. `done` moves the high watermark:
        `DataPlane.durable`.
        """
        wal = self._wal(os.path.dirname(log.directory))
        wal.when_durable(log, done, failed, advance=False)

    def stats(self) -> dict[str, "WalStats"]:
        """Counters of each write-ahead log by directory (wal.pyi: WalStats)."""
        return {path: each.stats() for path, each in self._wals.items()}

    # ------------------------------------------------------------ checkpoints and the end

    async def checkpoint(self) -> None:
        """Takes a checkpoint on a timer, to keep recovery short."""
        for each in list(self._wals.values()):
            try:
                await each.checkpoint_soon()
            except (LogError, OSError) as error:
                event_log.error(
                    "a checkpoint of the write-ahead log failed and is retried; check the disk. Recovery "
                    "after a crash takes longer until it succeeds",
                    directory=str(each.path),
                    detail=str(error),
                )

    def stop(self) -> None:
        """Writes all staged records to the medium. Call after the reactors have stopped."""
        for each in self._wals.values():
            each.stop()

    def close(self, *, is_clean: Callable[[str], bool]) -> None:
        """Closes the write-ahead logs after the partition logs. `is_clean(path)` says whether every log in
        that directory was closed.
        """
        with ExitStack() as stack:
            while self._wals:
                path, each = self._wals.popitem()
                stack.callback(each.close, clean=is_clean(path))
