"""Runs the broker's timed tasks: retention, flushing, checkpoints, expiry, unlinking.

Each task sleeps until it is due and does nothing unless something was written since its last run. An idle
broker wakes a few times a minute.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine import background, event_log
from bowstring.engine.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

_NEVER_MS: Final = 1 << 62
# A loop over partitions yields the control thread after this many logs.
_SLICE: Final = 256


def flush_all(logs: list[PartitionLog]) -> None:
    """Syncs logs one after another. A log that fails goes out of service; the others are still synced."""
    later: list[LogError] = []
    for log in logs:
        try:
            log.flush()
        except LogError as error:
            if not log.failed:
                later.append(error)
                continue
            event_log.error(
                "a log could not be synced, so its partition is out of service; check the disk, then "
                "restart the broker",
                detail=str(error),
            )
    if later:
        event_log.warning(
            "logs could not be synced now; the next flush tries again", logs=len(later), detail=str(later[-1])
        )


def retain(logs: list[tuple[str, int, PartitionLog]], now: int) -> None:
    """Applies retention to logs one after another. A failure of one log does not stop the others."""
    for topic, index, log in logs:
        try:
            for base_offset, reason in log.apply_retention(now):
                event_log.info(
                    "segment deleted", partition=f"{topic}-{index}", base_offset=base_offset, reason=reason
                )
            log.delete_expired_files(now)
        except LogError as error:
            event_log.error("retention could not delete segments; check the disk", detail=str(error))


def now_ms() -> int:
    """Wall clock, milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Housekeeping:
    """Runs the broker's timers. Call `start` and `stop` on the control loop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._unlink_timer: asyncio.TimerHandle | None = None
        self._unlinking: set[asyncio.Future[None]] = set()
        self._is_stopped = False
        self._seen: dict[str, int] = {}
        self._flushes = 0

    def start(self) -> None:
        """Starts the timers that the configs require."""
        value = self._broker.configs.value
        first_ms = value("log.initial.task.delay.ms")
        for name, interval_ms, work in (
            ("retention", value("log.retention.check.interval.ms"), self.apply_retention),
            ("recovery points", value("log.flush.offset.checkpoint.interval.ms"), self.checkpoint_recovery),
            ("log starts", value("log.flush.start.offset.checkpoint.interval.ms"), self.checkpoint_starts),
            ("high watermarks", value("replica.high.watermark.checkpoint.interval.ms"), self.checkpoint_hw),
            ("producer expiry", value("producer.id.expiration.check.interval.ms"), self.expire_producers),
        ):
            self._tasks.append(background.spawn(self._every(name, first_ms, interval_ms, work), name))
        self.cluster_changed()

    def cluster_changed(self) -> None:
        """Starts the flushes and unlinks that a change of topics or configs requires."""
        if not self._is_stopped:
            self._watch_flushes()
            self._watch_unlinks()

    async def stop(self) -> None:
        """Stops the timers, and waits until no directory is being unlinked: nothing is to be written when the
        directories are no longer locked.
        """
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._unlink_timer is not None:
            self._unlink_timer.cancel()
            self._unlink_timer = None
        self._broker.logs.retired.close()
        if self._unlinking:
            await asyncio.wait(self._unlinking)

    async def _every(self, name: str, first_ms: int, interval_ms: int, work: Callable[[], object]) -> None:
        await asyncio.sleep(min(first_ms, interval_ms) / 1000)
        while True:
            try:
                result = work()
                if asyncio.iscoroutine(result):
                    await result
            except (OSError, LogError) as error:
                event_log.error(
                    "a housekeeping task failed and is retried at its next interval; check the disk and the "
                    "limit on open files",
                    task=name,
                    detail=str(error),
                )
            except Exception:
                event_log.error(
                    "a housekeeping task failed and is retried at its next interval; report the traceback "
                    "as a bug",
                    traceback=True,
                    task=name,
                )
            await asyncio.sleep(max(1, interval_ms) / 1000)

    def _something_written(self, reader: str) -> bool:
        """Returns whether anything was produced or synced since this task's last check."""
        writes = self._broker.logs.writes + self._flushes
        seen = self._seen.get(reader)
        self._seen[reader] = writes
        return seen != writes

    # ------------------------------------------------------------ tasks

    async def apply_retention(self) -> None:
        """Deletes segments that are too old, beyond the size limit, or below the log start offset."""
        await asyncio.get_running_loop().run_in_executor(None, retain, list(self._broker.logs), now_ms())

    async def expire_producers(self) -> None:
        """Removes producers that have been idle for producer.id.expiration.ms."""
        now = now_ms()
        for count, (_, _, log) in enumerate(list(self._broker.logs), 1):
            log.expire_producers(now)
            if count % _SLICE == 0:
                await asyncio.sleep(0)

    async def checkpoint_recovery(self) -> None:
        """Writes recovery-point-offset-checkpoint after syncing what commit mode and rolled segments left
        unsynced.
        """
        await self._broker.logs.durability.checkpoint()
        if self._something_written(RECOVERY_POINTS):
            from bowstring._native.log.checkpoint import (
                flush_rolled,
            )  # not at start: the first run comes later

            others = [log for _, _, log in self._broker.logs if not log.in_commit_mode]
            await asyncio.get_running_loop().run_in_executor(None, flush_rolled, others)
            await self._checkpoint(RECOVERY_POINTS)

    def logs_truncated(self, cut: Sequence[tuple[str, int, int]]) -> None:
        """Writes the checkpoints that lie above the new ends of followers' logs. Records that follow may be
        neither on the medium nor compacted.

        Args:
            cut: Topic, index and new end offset of each log.
        """
        asyncio.get_running_loop().run_in_executor(None, self._write_cuts, cut)

    def _write_cuts(self, cut: Sequence[tuple[str, int, int]]) -> None:
        self._broker.logs.checkpoint(RECOVERY_POINTS)()
        for topic, index, end_offset in cut:
            log = self._broker.logs.get(topic, index)
            if log is not None:
                self._broker.cleaner.log_truncated(topic, index, log, end_offset)

    async def checkpoint_starts(self) -> None:
        """Writes log-start-offset-checkpoint."""
        await self._checkpoint(LOG_START_OFFSETS)

    async def checkpoint_hw(self) -> None:
        """Writes replication-offset-checkpoint."""
        if self._something_written(HIGH_WATERMARKS):
            await self._checkpoint(HIGH_WATERMARKS)

    async def _checkpoint(self, name: str) -> None:
        """Writes a checkpoint on another thread, so that a slow disk blocks nothing else."""
        await asyncio.get_running_loop().run_in_executor(None, self._broker.logs.checkpoint(name))

    # ------------------------------------------------------------ flush.ms

    def flush_interval_ms(self) -> int:
        """Interval at which flush.ms must be checked: the smallest value of any topic."""
        configs, image = self._broker.configs, self._broker.metadata.image
        intervals = [configs.value("log.flush.scheduler.interval.ms")]
        default = int(configs.topic_default("flush.ms") or _NEVER_MS)
        intervals.append(default)
        intervals += (
            int(overrides["flush.ms"])
            for (_, _), overrides in image.configs.items()
            if "flush.ms" in overrides
        )
        return max(1, int(min(intervals)))

    def _watch_flushes(self) -> None:
        """Starts the flush timer when a topic sets flush.ms."""
        if self.flush_interval_ms() < _NEVER_MS and not any(
            task.get_name() == "flush" and not task.done() for task in self._tasks
        ):
            self._tasks.append(background.keep_running(self._flush, "flush"))

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while (interval_ms := self.flush_interval_ms()) < _NEVER_MS:
            await asyncio.sleep(interval_ms / 1000)
            if not self._something_written("flush"):
                continue
            due = self._flush_due()
            if due:
                await loop.run_in_executor(None, flush_all, due)
                self._flushes += 1

    def _flush_due(self) -> list[PartitionLog]:
        configs, image = self._broker.configs, self._broker.metadata.image
        due = []
        for topic in image.topics:
            flush_ms = configs.topic_value("flush.ms", image.topic_configs(topic))
            if flush_ms < _NEVER_MS:
                due += [
                    log
                    for log in self._broker.logs.of_topic(topic)
                    if log is not None and log.recovery_point < log.log_end_offset
                ]
        return due

    # ------------------------------------------------------------ delayed deletes

    def _watch_unlinks(self) -> None:
        """Sets the timer for the next retired directory."""
        due = self._broker.logs.retired.next_due()
        if self._unlink_timer is not None:
            self._unlink_timer.cancel()
            self._unlink_timer = None
        if due is not None:
            delay = max(0.0, due - time.monotonic())
            self._unlink_timer = asyncio.get_running_loop().call_later(delay, self._unlink, due)

    def _unlink(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        now = max(due, time.monotonic())  # timers are up to a millisecond early
        done = loop.run_in_executor(None, self._unlink_retired, now)
        self._unlinking.add(done)
        done.add_done_callback(self._unlinked)

    def _unlinked(self, done: "asyncio.Future[None]") -> None:
        self._unlinking.discard(done)
        if not self._is_stopped:
            self._watch_unlinks()

    def _unlink_retired(self, now: float) -> None:
        """Unlinks directories once the recovery points are without them: until then they say that these are
        of an earlier topic (`LogOpener.note_created`).
        """
        try:
            self._broker.logs.checkpoint(RECOVERY_POINTS)()
        except OSError:  # no descriptor or no memory now
            self._broker.logs.retired.put_off(now)
        else:
            self._broker.logs.retired.unlink(now)
