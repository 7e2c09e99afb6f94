"""Runs the write-ahead log of one log directory: supplies segments, takes checkpoints, reports durability.

Appends wait for it in native code (_native/wal/write_ahead_log.pyx). durability.py decides which partitions
it serves.
"""

import asyncio
import errno
import importlib.util
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.disk.descriptors import this_thread_takes_last
from bowstring._native.log import durability
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.wal.write_ahead_log import CONTROL, SUPPLY, WriteAheadLog
from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring._native.wal.write_ahead_log import WalStats

# With this many full segments a checkpoint is worth its cost; with fewer, another segment is made while the
# limit allows.
_CHECKPOINT_SEGMENTS: Final = 4
# Free disk space left to partitions beyond the new segment, as long as a checkpoint can free a segment
# instead.
_SPARE_BYTES: Final = 64 << 20
_RETRY_S: Final = 1.0
_CURES: Final = {
    errno.EMFILE: "raise the limit on open files (ulimit -n, LimitNOFILE of systemd)",
    errno.ENFILE: "raise the system's limit on open files (fs.file-max)",
}
OVER_S: Final = 5.0
"""A lack of segments is over, in the log, when there was enough for this long."""


class _Waiting(NamedTuple):
    frame: int
    log: PartitionLog
    end_offset: int
    cuts: int
    advance: bool
    done: Callable[[], None]
    failed: Callable[[], None]


def liburing_path() -> str | None:
    """Returns the path of liburing's extension module without importing it; None when the package is not
    installed.
    """
    found = importlib.util.find_spec("liburing")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = os.path.join(folder, "liburing.so")
        if os.path.exists(path):
            return path
    return None


def sync_logs(logs: Iterable[PartitionLog]) -> None:
    """Syncs logs.

    Raises:
        LogError: Some could not be synced; they are out of service.
    """
    # Not at start: a broker without commit mode syncs its logs in other ways.
    from bowstring._native.log.checkpoint import flush_logs

    failed = flush_logs(list(logs))["failed"]
    if failed:
        raise LogError(
            Errors.KAFKA_STORAGE_ERROR.code, f"{failed} logs could not be synced and are out of service"
        )


def _call(callback: Callable[[], None], log: PartitionLog) -> None:
    """Calls back one waiter. Its failure must not take the call from the others."""
    try:
        callback()
    except Exception:
        event_log.error(
            "bug: what waited for the write-ahead log failed; report the traceback",
            traceback=True,
            partition=os.path.basename(log.directory),
        )


class DirectoryWal:
    """The write-ahead log of one log directory, and the thread that supplies it with segments.

    The thread waits for no other thread. The control thread may wait for a reactor that waits for a segment.

    Args:
        path: The log directory.
        when_checkpointed: Called on the supply thread after logs were flushed; writes their recovery points.
        last_frame: The last frame that `replay` or `survey` found in the existing files.

    Attributes:
        wal: The native log.
        checkpoints: Number of checkpoints taken.
        is_stuck: Whether records wait for a segment that cannot be made.
        when_stuck: Called on the control loop when `is_stuck` has changed.
        when_failed: Called once on the control loop with the errno that has ended the write-ahead log.
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
        self._held: dict[PartitionLog, int] = {}
        self._waiting: deque[_Waiting] = deque()
        self._calls_soon = False
        self._is_failure_told = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._segment_bytes = configs.value("bowstring.wal.segment.bytes")
        self._segments_max = max(2, configs.value("bowstring.wal.max.bytes") // self._segment_bytes)
        self.wal = WriteAheadLog(
            path,
            last_frame=last_frame,
            segment_bytes=self._segment_bytes,
            io=configs.value("bowstring.wal.io"),
            liburing=liburing_path(),
        )
        if self.wal.io_reason:
            event_log.warning(
                "io_uring is unavailable; the write-ahead log uses pwrite, which is slower. Install "
                "liburing or allow io_uring to change that",
                reason=self.wal.io_reason,
            )
        from bowstring._native.log.wal_replay import segment_numbers

        numbers = segment_numbers(path)
        for number in numbers:
            self.wal.add_segment(number, make=False)
        self._next_number = numbers[-1] + 1 if numbers else 0
        self._control_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # starts at one, so that the thread makes the first segment at once
        self._supply_fd = os.eventfd(1, os.EFD_CLOEXEC)
        self._stopping = threading.Event()
        self._asked: deque[Future[None]] = deque()
        self.is_stuck = False
        self.when_stuck: Callable[[], None] = lambda: None
        self.when_failed: Callable[[int], None] = lambda error: None
        self._lacks_since_s: float | None = None
        self._last_lack_s = 0.0
        self._stuck_at_frame: int | None = None
        self.checkpoints = 0
        self.wal.wake_by(CONTROL, self._control_fd)
        self.wal.wake_by(SUPPLY, self._supply_fd)
        plane.wake_by(self.wal)
        self._thread = threading.Thread(target=self._supply, name="wal-supply", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts commits and the supply thread, which makes the first segment at once."""
        self._loop = loop
        loop.add_reader(self._control_fd, self._woken)
        self.wal.start()
        self._thread.start()
        loop.call_soon(self.call_waiters)  # earlier waiters

    # ------------------------------------------------------------ logs

    def add(self, log: PartitionLog) -> None:
        """Adds a log that is about to join, so that every checkpoint from now on syncs it."""
        self._logs[log] = None

    def discard(self, log: PartitionLog) -> None:
        """Removes a log that has left or was deleted. Its staged records are in synced files or no longer
        needed.
        """
        self._logs.pop(log, None)
        self._held.pop(log, None)

    def hold(self, log: PartitionLog) -> None:
        """Keeps the frames from now on until `let_go`, whatever checkpoints sync."""
        self._held[log] = self.wal.closed_frame

    def let_go(self, log: PartitionLog) -> None:
        """Lets the next checkpoint free the segments that `hold` kept."""
        self._held.pop(log, None)

    def serves(self, log: PartitionLog) -> bool:
        """Returns whether checkpoints sync the log."""
        return log in self._logs

    def when_durable(
        self,
        log: PartitionLog,
        done: Callable[[], None],
        failed: Callable[[], None],
        *,
        advance: bool = True,
    ) -> None:
        """Calls `done` on the control loop once all records appended to the log so far are on the medium.

        Calls `failed` instead if the write-ahead log fails first. Calls neither before it returns, so a
        callback may register the next one without end.

        Args:
            advance: Moves the high watermark, too. A partition with followers must not: `done` calls
                `DataPlane.durable`.
        """
        frame = durability.staged_frame(log)
        cuts = durability.cuts(log)
        self._waiting.append(_Waiting(frame, log, log.log_end_offset, cuts, advance, done, failed))
        if self._loop is None or self._calls_soon:
            return
        if self.wal.failure is not None or self._is_durable(self._waiting[0].frame):
            self._calls_soon = True
            self._loop.call_soon(self._call_soon)

    def _call_soon(self) -> None:
        self._calls_soon = False
        self.call_waiters()

    def _is_durable(self, frame: int) -> bool:
        """Whether a frame is on the medium; otherwise the control loop is woken when it is."""
        if frame > self.wal.durable_frame:
            self.wal.control_waits()
        return frame <= self.wal.durable_frame

    def call_waiters(self) -> None:
        """Calls back the waiters whose frames are on the medium, or all waiters if the write-ahead log has
        failed.
        """
        while self._waiting and self._is_durable(self._waiting[0].frame):
            first = self._waiting.popleft()
            durability.durable_to(first.log, first.end_offset, cuts=first.cuts, advance=first.advance)
            _call(first.done, first.log)
        failure = self.wal.failure
        if failure is not None:
            # At the end it also fails for want of a segment: then the files of the logs are synced instead.
            if not self._is_failure_told and not self._stopping.is_set():
                self._is_failure_told = True
                self.when_failed(failure)
            late = list(self._waiting)
            self._waiting.clear()
            for each in late:
                _call(each.failed, each.log)

    def _woken(self) -> None:
        try:
            os.eventfd_read(self._control_fd)
        except BlockingIOError:
            return
        self.call_waiters()

    # ------------------------------------------------------------ segments and checkpoints

    def _supply(self) -> None:
        """Runs on the supply thread: makes room when the write-ahead log requests it, and takes
        checkpoints.
        """
        wanted = True
        this_thread_takes_last()
        while not self._stopping.is_set():
            if self._asked_within(self._quiet_left_s()):
                os.eventfd_read(self._supply_fd)
            else:
                self._tell_of_room()
            wanted = self.wal.take_wants_segment() or wanted
            while wanted and not self._stopping.is_set():
                wanted = not self._room_made()
                self.answer_checkpoints()
            self.answer_checkpoints()

    def _asked_within(self, seconds: float | None) -> bool:
        asked = select.poll()
        asked.register(self._supply_fd, select.POLLIN)
        return bool(asked.poll(None if seconds is None else seconds * 1000))

    def _room_made(self) -> bool:
        try:
            self.make_room()
        except Exception as error:  # must catch all: if this thread ends, no further record is acknowledged
            self._note_lack(error)
            self._stopping.wait(_RETRY_S)
            return False
        self._note_stuck(None)
        return True

    def _note_lack(self, error: Exception) -> None:
        self._last_lack_s = time.monotonic()
        if self._lacks_since_s is None:
            self._lacks_since_s = self._last_lack_s
            event_log.error(
                "the write-ahead log has no free segment; producers wait until there is one again",
                directory=str(self.path),
                detail=str(error) or repr(error),
                cure=_CURES.get(getattr(error, "errno", None) or 0, "free space on the disk, or check it"),
            )
        # The segment that is missing is a spare one until records wait and nothing becomes durable.
        waits = self.wal.stats()["staged_bytes"] > 0
        self._note_stuck(self.wal.durable_frame if waits else None)

    def _note_stuck(self, at_frame: int | None) -> None:
        is_stuck = at_frame is not None and at_frame == self._stuck_at_frame
        self._stuck_at_frame = at_frame
        if is_stuck != self.is_stuck:
            self.is_stuck = is_stuck
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self.when_stuck)

    def _quiet_left_s(self) -> float | None:
        """How long there must be enough segments yet until a lack is over; None: there is none."""
        if self._lacks_since_s is None:
            return None
        return max(0.0, self._last_lack_s + OVER_S - time.monotonic())

    def _tell_of_room(self) -> None:
        assert self._lacks_since_s is not None
        event_log.info(
            "the write-ahead log has free segments again",
            directory=str(self.path),
            after_s=round(self._last_lack_s - self._lacks_since_s, 1),
        )
        self._lacks_since_s = None

    def waiting_logs(self) -> list[PartitionLog]:
        """Returns the logs whose records wait for a segment that cannot be made."""
        return list(self._logs) if self.is_stuck else []

    def make_room(self, least: int = 1) -> None:
        """Frees a segment by a checkpoint if that helps, otherwise makes a new segment.

        Args:
            least: Does nothing if at least this many segments are free; otherwise adds segments once.

        Raises:
            LogError, OSError: Neither was possible.
        """
        stats = self.wal.stats()
        if stats["free_segments"] >= least:
            return
        frees_some = stats["full_segments"] > 0
        if frees_some and (
            stats["full_segments"] >= _CHECKPOINT_SEGMENTS
            or stats["segments"] >= self._segments_max
            or self._disk_is_tight()
        ):
            self.checkpoint()
            if not self._held or self.wal.stats()["free_segments"] >= least:
                return
            frees_some = False
        try:
            self.add_segment()
        except OSError as error:
            if not frees_some or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.checkpoint()
            if self._held and self.wal.stats()["free_segments"] < least:
                raise

    def add_segment(self) -> None:
        """Makes one more segment.

        Raises:
            OSError: It cannot be made.
        """
        self.wal.add_segment(self._next_number)
        self._next_number += 1

    def _disk_is_tight(self) -> bool:
        found = os.statvfs(self.path)
        return bool(found.f_bavail * found.f_frsize < self._segment_bytes + _SPARE_BYTES)

    def checkpoint(self) -> None:
        """Syncs to partition files the records that the write-ahead log holds, so that its segments can be
        reused.

        Raises:
            LogError: A log could not be synced; no segment is freed.
        """
        frame = self._freed_frame()
        logs = list(self._logs)
        try:
            sync_logs(logs)
        except LogError:
            if all(log in self._logs for log in logs):
                raise
            sync_logs(list(self._logs))  # a log that was deleted meanwhile cannot be synced
        self._when_checkpointed()
        self.wal.released(frame)
        self.checkpoints += 1

    def _freed_frame(self) -> int:
        """Returns the newest frame that a checkpoint which begins now may free."""
        return min([self.wal.closed_frame, *list(self._held.values())])

    def answer_checkpoints(self) -> None:
        """Takes the checkpoints that `ask_checkpoint` requested. On the supply thread."""
        while self._asked:
            asked = self._asked.popleft()
            if not asked.set_running_or_notify_cancel():
                continue
            try:
                self.checkpoint()
            except Exception as error:
                asked.set_exception(error)
            else:
                asked.set_result(None)

    async def checkpoint_soon(self) -> None:
        """Takes a checkpoint off the control loop if there is something to sync.

        Raises:
            LogError, OSError: As `checkpoint`.
        """
        if self._thread.is_alive() and self.wal.stats()["checkpoint_frame"] < self.wal.durable_frame:
            await asyncio.wrap_future(self.ask_checkpoint())

    def ask_checkpoint(self) -> "Future[None]":
        """Requests a checkpoint from the supply thread."""
        asked: Future[None] = Future()
        self._asked.append(asked)
        os.eventfd_write(self._supply_fd, 1)
        return asked

    # ------------------------------------------------------------ the end

    def stop(self) -> None:
        """Writes all staged records to the medium and accepts no more. Call after the reactors have
        stopped.
        """
        if self._loop is not None:
            self._loop.remove_reader(self._control_fd)
        self._stopping.set()
        os.eventfd_write(self._supply_fd, 1)
        if self._thread.is_alive():
            self._thread.join()
        for asked in self._asked:
            asked.cancel()
        self._asked.clear()
        self.wal.stop()
        self.call_waiters()
        for log in self._logs:
            durability.join(log, None, bytes(16), 0)
        self._logs.clear()

    def close(self, *, clean: bool) -> None:
        """Closes the write-ahead log after the partition logs were synced and closed. `clean`: all of them
        were.
        """
        try:
            if clean and self.wal.failure is None:
                self.wal.mark_clean()
        finally:
            os.close(self._control_fd)
            os.close(self._supply_fd)

    def stats(self) -> "WalStats":
        """Counters of the write-ahead log (wal.pyi: WalStats)."""
        return self.wal.stats()
