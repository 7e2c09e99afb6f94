"""Commit mode: acknowledged means on the medium (`bowstring.durability`).

Each log directory has one write-ahead log (_native/wal.pyx), shared by its partitions. Here it is recovered
from, given segments, and kept short by checkpoints; what makes appends wait for it is native.
"""

import asyncio
import importlib.util
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native import log_durability
from bowstring._native.dataplane import DataPlane
from bowstring._native.log import LogError, PartitionLog
from bowstring._native.log_checkpoint import flush_logs
from bowstring._native.wal import CONTROL, SUPPLY, WriteAheadLog
from bowstring._native.wal_replay import replay, segment_numbers, supersede, survey
from bowstring.engine.broker import log_lines
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.errors import Errors

if TYPE_CHECKING:
    from bowstring._native.wal import WalStats

COMMIT: Final = "commit"

# So many full segments are worth a checkpoint; fewer, and another segment is made while there may be one.
_CHECKPOINT_SEGMENTS: Final = 4
_RETRY_S: Final = 1.0

LogsById = dict[tuple[bytes, int], PartitionLog]


class _Waiting(NamedTuple):
    frame: int
    log: PartitionLog
    end_offset: int
    done: Callable[[], None]


def liburing_path() -> str | None:
    """Where liburing's extension module is, without importing it; None when the package is not installed."""
    found = importlib.util.find_spec("liburing")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = os.path.join(folder, "liburing.so")
        if os.path.exists(path):
            return path
    return None


class DirectoryWal:
    """The write-ahead log of one log directory, and the thread that keeps it supplied with segments.

    That thread depends on nobody: the control thread may wait for a reactor that waits for a segment.

    Args:
        path: The log directory.
        when_checkpointed: Called on the supply thread after logs were flushed: writes their recovery points.
        last_frame: What `replay` or `survey` told of the files that are there.
    """

    def __init__(
        self,
        path: Path,
        configs: BrokerConfigs,
        plane: DataPlane,
        when_checkpointed: Callable[[], None],
        last_frame: int,
    ) -> None:
        self.path = path
        self._when_checkpointed = when_checkpointed
        self._logs: dict[PartitionLog, None] = {}
        self._waiting: deque[_Waiting] = deque()
        self._failure_told = False
        self._loop: asyncio.AbstractEventLoop | None = None
        segment_bytes = configs.value("bowstring.wal.segment.bytes")
        self._segments_max = max(2, configs.value("bowstring.wal.max.bytes") // segment_bytes)
        self.wal = WriteAheadLog(
            path,
            last_frame=last_frame,
            segment_bytes=segment_bytes,
            io=configs.value("bowstring.wal.io"),
            liburing=liburing_path(),
        )
        if self.wal.io_reason:
            log_lines.warning(
                "io_uring is not to be had; the write-ahead log is written with pwrite",
                reason=self.wal.io_reason,
            )
        numbers = segment_numbers(path)
        for number in numbers:
            self.wal.add_segment(number, make=False)
        self._next_number = numbers[-1] + 1 if numbers else 0
        self._control_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # counts one at the beginning: the first segment is made at once
        self._supply_fd = os.eventfd(1, os.EFD_CLOEXEC)
        self._stopping = False
        self._checkpoints: deque[Future[None]] = deque()
        self.wal.wake_by(CONTROL, self._control_fd)
        self.wal.wake_by(SUPPLY, self._supply_fd)
        plane.wake_by(self.wal)
        self.wal.start()
        self._thread = threading.Thread(target=self._supply, name="wal-supply", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to supply segments; the first is made now, beside everything else."""
        self._loop = loop
        loop.add_reader(self._control_fd, self._woken)
        self._thread.start()

    # ------------------------------------------------------------ logs

    def add(self, log: PartitionLog) -> None:
        """A log has been joined to it."""
        self._logs[log] = None

    def discard(self, log: PartitionLog) -> None:
        """A log is no longer joined to it, or gone."""
        self._logs.pop(log, None)

    def when_durable(self, log: PartitionLog, done: Callable[[], None]) -> None:
        """Calls `done` on the control loop once everything appended to the log so far is on the medium.

        When the write-ahead log fails, it is never called.
        """
        frame = log_durability.staged_frame(log)
        self._waiting.append(_Waiting(frame, log, log.log_end_offset, done))
        self._settle()

    def _settle(self) -> None:
        while self._waiting:
            if self._waiting[0].frame > self.wal.durable_frame:
                self.wal.control_waits()
                if self._waiting[0].frame > self.wal.durable_frame:
                    return
            first = self._waiting.popleft()
            log_durability.durable_to(first.log, first.end_offset)
            first.done()

    def _woken(self) -> None:
        try:
            os.eventfd_read(self._control_fd)
        except BlockingIOError:
            return
        failure = self.wal.failure
        if failure is not None and not self._failure_told:
            self._failure_told = True
            log_lines.error(
                "the write-ahead log cannot be written: its partitions take no more records; "
                "repair or free the disk, then start the broker again",
                directory=str(self.path),
                detail=failure,
            )
        self._settle()

    # ------------------------------------------------------------ segments and checkpoints

    def _supply(self) -> None:
        """The supply thread: makes room when the write-ahead log asks for it, and takes checkpoints."""
        wanted = True
        while not self._stopping:
            os.eventfd_read(self._supply_fd)
            wanted = self.wal.take_wants_segment() or wanted
            while wanted and not self._stopping:
                wanted = not self._room_made()
            while self._checkpoints:
                self._answer_checkpoint(self._checkpoints.popleft())

    def _room_made(self) -> bool:
        try:
            self._make_room()
        except (LogError, OSError) as error:
            log_lines.error(
                "the write-ahead log gets no room; producers wait until there is some",
                directory=str(self.path),
                detail=str(error),
            )
            time.sleep(_RETRY_S)
            return False
        return True

    def _make_room(self) -> None:
        """A free segment: by a checkpoint when that frees some, else by making one."""
        stats = self.wal.stats()
        if stats["free_segments"] > 0:
            return
        if stats["full_segments"] >= _CHECKPOINT_SEGMENTS or stats["segments"] >= self._segments_max:
            self.checkpoint()
            if self.wal.stats()["free_segments"] > 0:
                return
        self.wal.add_segment(self._next_number)
        self._next_number += 1

    def checkpoint(self) -> None:
        """Syncs what the write-ahead log holds in partition files, so that its segments may be written over.

        Raises:
            LogError: A log could not be synced; nothing is given back.
        """
        frame = self.wal.closed_frame
        sync_logs(list(self._logs))
        self._when_checkpointed()
        self.wal.released(frame)

    def _answer_checkpoint(self, asked: "Future[None]") -> None:
        try:
            self.checkpoint()
        except (LogError, OSError) as error:
            asked.set_exception(error)
        else:
            asked.set_result(None)

    async def checkpoint_soon(self) -> None:
        """A checkpoint beside the control loop, if there is something to sync.

        Raises:
            LogError, OSError: As `checkpoint`.
        """
        if self._thread.is_alive() and self.wal.stats()["checkpoint_frame"] < self.wal.durable_frame:
            asked: Future[None] = Future()
            self._checkpoints.append(asked)
            os.eventfd_write(self._supply_fd, 1)
            await asyncio.wrap_future(asked)

    # ------------------------------------------------------------ the end

    def stop(self) -> None:
        """Everything staged goes to the medium, and nothing more is taken. Reactors have stopped."""
        if self._loop is not None:
            self._loop.remove_reader(self._control_fd)
        self._stopping = True
        os.eventfd_write(self._supply_fd, 1)
        if self._thread.is_alive():
            self._thread.join()
        self.wal.stop()
        self._settle()
        for log in self._logs:
            log_durability.join(log, None, bytes(16), 0)
        self._logs.clear()

    def close(self, *, clean: bool) -> None:
        """After the partition logs were synced and closed; `clean`: all of them."""
        if clean and self.wal.failure is None:
            self.wal.mark_clean()
        os.close(self._control_fd)
        os.close(self._supply_fd)


def sync_logs(logs: Iterable[PartitionLog]) -> None:
    """Puts what is new in logs on the medium.

    Raises:
        LogError: Some could not be synced; they are out of service.
    """
    failed = flush_logs(list(logs))["failed"]
    if failed:
        raise LogError(
            Errors.KAFKA_STORAGE_ERROR.code, f"{failed} logs could not be synced and are out of service"
        )


class Durability:
    """Which partitions are in commit mode, and the write-ahead logs of the broker's directories."""

    def __init__(
        self, configs: BrokerConfigs, plane: DataPlane, when_checkpointed: Callable[[], None]
    ) -> None:
        self._configs = configs
        self._plane = plane
        self._when_checkpointed = when_checkpointed
        self._wals: dict[str, DirectoryWal] = {}
        self._last_frames: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    # ------------------------------------------------------------ start

    def recover(self, path: Path, logs: LogsById) -> None:
        """After an unclean end: puts back what the write-ahead log has and its partition files lack.

        Raises:
            WalError, LogError: What could not be read or written, and what to do.
        """
        result = replay(path, logs)
        for key, (batches, _, _, missing) in result["logs"].items():
            if missing is not None:
                log_lines.error(
                    "records are missing: acknowledged from the page cache, or their file is damaged",
                    partition=os.path.basename(logs[key].directory),
                    first_offset=missing[0],
                    last_offset=missing[1] - 1,
                    batches_after=batches,
                )
        if segment_numbers(path):
            # What is served from now on must not be lost by the next power failure.
            sync_logs(logs.values())
            log_lines.info(
                "write-ahead log replayed",
                directory=str(path),
                frames=result["frames"],
                bytes=result["bytes"],
            )
        if result["superseded"] is not None:
            supersede(path, *result["superseded"])
        self._last_frames[str(path)] = result["last_frame"]

    def open(self, paths: Iterable[Path]) -> None:
        """Opens the write-ahead logs of directories when topics are in commit mode by default."""
        if self._configs.topic_default("bowstring.durability") == COMMIT:
            for path in paths:
                self._wal(str(path))

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to supply the write-ahead logs. On the control loop."""
        self._loop = loop
        for each in self._wals.values():
            each.start(loop)

    def _wal(self, path: str) -> DirectoryWal:
        found = self._wals.get(path)
        if found is None:
            last_frame = self._last_frames.get(path) or survey(path)
            found = DirectoryWal(Path(path), self._configs, self._plane, self._when_checkpointed, last_frame)
            self._wals[path] = found
            if self._loop is not None:
                found.start(self._loop)
        return found

    # ------------------------------------------------------------ partitions

    def wants_commit(self, overrides: Mapping[str, str]) -> bool:
        """Whether a topic's configs put it in commit mode."""
        return bool(self._configs.topic_value("bowstring.durability", overrides) == COMMIT)

    def join(self, topic_id: bytes, partition: int, log: PartitionLog, overrides: Mapping[str, str]) -> None:
        """Puts a log that is not served yet in its topic's mode. What it holds is on the medium."""
        if self.wants_commit(overrides):
            wal = self._wal(os.path.dirname(log.directory))
            log_durability.join(log, wal.wal, topic_id, partition)
            wal.add(log)

    def switch(self, topic: str, partition: int, log: PartitionLog, overrides: Mapping[str, str]) -> None:
        """The same for a log that is served, after a change of configs.

        Raises:
            LogError: The log could not be synced; it stays in the mode it was in.
        """
        wanted = self.wants_commit(overrides)
        if wanted == log.in_commit_mode:
            return
        wal = self._wal(os.path.dirname(log.directory))
        log.flush()
        self._plane.set_durability(topic, partition, log, wal.wal if wanted else None)
        if wanted:
            wal.add(log)
        else:
            wal.discard(log)

    def wal_for_move(
        self, path: Path, log: PartitionLog, overrides: Mapping[str, str]
    ) -> WriteAheadLog | None:
        """The write-ahead log of the directory that a log moves to; None when it is not in commit mode."""
        return self._wal(str(path)).wal if self.wants_commit(overrides) and log.in_commit_mode else None

    def moved(self, old: PartitionLog, new: PartitionLog) -> None:
        """`new` has taken the place of `old`, joined to the write-ahead log of its own directory."""
        if new.in_commit_mode:
            self._wal(os.path.dirname(new.directory)).add(new)
        self.discard(old)

    def discard(self, log: PartitionLog) -> None:
        """A log is about to be deleted."""
        for each in self._wals.values():
            each.discard(log)

    def when_durable(self, log: PartitionLog, done: Callable[[], None]) -> None:
        """See `DirectoryWal.when_durable`; the log is in commit mode."""
        self._wal(os.path.dirname(log.directory)).when_durable(log, done)

    def stats(self) -> dict[str, "WalStats"]:
        """Counters of each write-ahead log by directory (wal.pyi: WalStats)."""
        return {path: each.wal.stats() for path, each in self._wals.items()}

    # ------------------------------------------------------------ checkpoints and the end

    async def checkpoint(self) -> None:
        """Keeps recovery short by the clock, too."""
        for each in list(self._wals.values()):
            try:
                await each.checkpoint_soon()
            except (LogError, OSError) as error:
                log_lines.error("a checkpoint failed", directory=str(each.path), detail=str(error))

    def stop(self) -> None:
        """After the reactors: everything staged goes to the medium."""
        for each in self._wals.values():
            each.stop()

    def close(self, *, is_clean: Callable[[str], bool]) -> None:
        """After the logs were closed; `is_clean` tells of a directory's path whether all of it was."""
        for path, each in self._wals.items():
            each.close(clean=is_clean(path))
        self._wals.clear()
