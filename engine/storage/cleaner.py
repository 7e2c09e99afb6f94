"""Compacts logs on the cleaner threads, the dirtiest log first.

cleaner_choice.py decides what to clean and when; _native/cleaner/cleaner.pyx does the cleaning. When
nothing has been written, the cleaner wakes every log.cleaner.backoff.ms, compares two counters and sleeps
again. The native cleaner is imported where it is used, not at start: many brokers compact nothing.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine import background, event_log
from bowstring.engine.storage.checkpoints import CheckpointError, PartitionKey, read_offsets, write_offsets
from bowstring.engine.storage.cleaner_choice import (
    NEVER_MS,
    Candidate,
    LogFacts,
    SegmentFacts,
    candidate,
    filthiest,
)

if TYPE_CHECKING:
    from bowstring._native.cleaner.cleaner import Cleaning, CleaningFigures, IoThrottle
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_manager import LogManager

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_TABLE_MOST_BYTES: Final = (1 << 31) - 1


class _Compacted(NamedTuple):
    """A log with cleanup.policy=compact, and the settings that apply to it."""

    key: PartitionKey
    log: PartitionLog
    min_lag_ms: int
    max_lag_ms: int
    min_dirty_ratio: float
    delete_retention_ms: int


class CleanerFigures:
    """The cleaner's metrics. Times in seconds, ratios between 0 and 1."""

    def __init__(self) -> None:
        self.runs = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self.max_dirty_ratio = 0.0
        self.max_delay_s = 0.0
        self.last_recopy_ratio = 0.0
        self.last_run_s = 0.0
        self.last_table_utilization = 0.0
        self.last_look = time.monotonic()
        self.failed = 0


class CleanerOffsets:
    """Holds cleaner-offset-checkpoint of each log directory: the offset where the next run's dirty part
    begins.
    """

    def __init__(self) -> None:
        self._offsets: dict[Path, dict[PartitionKey, int]] = {}
        self._lock = Lock()

    def _of(self, directory: Path) -> dict[PartitionKey, int]:
        found = self._offsets.get(directory)
        if found is None:
            try:
                found = read_offsets(directory / CLEANER_OFFSETS)
            except (CheckpointError, OSError) as error:
                event_log.warning(
                    "cleaner-offset-checkpoint cannot be read; logs are compacted again from their start, "
                    "no action is needed",
                    detail=str(error),
                )
                found = {}
            self._offsets[directory] = found
        return found

    def get(self, item: tuple[PartitionKey, PartitionLog]) -> int | None:
        """Returns the offset at which the last run over a log ended; None without one."""
        with self._lock:
            return self._of(Path(item[1].directory).parent).get(item[0])

    def put(self, key: PartitionKey, log: PartitionLog, offset: int) -> None:
        """Records an offset and writes the file. Slow: syncs the file."""
        with self._lock:
            directory = Path(log.directory).parent
            offsets = self._of(directory)
            if offsets.get(key) != offset:
                offsets[key] = offset
                write_offsets(directory / CLEANER_OFFSETS, offsets)

    def forget(self, topic: str) -> None:
        """Removes a deleted topic, so that a later topic of the same name starts without an offset."""
        with self._lock:
            self._drop(lambda key: key[0] == topic)

    def begin_anew(self, key: PartitionKey, log: PartitionLog) -> None:
        """Resets the offset of a log that a copy in another directory has replaced: the copy may hold records
        that were already cleaned away.
        """
        with self._lock:
            self._of(Path(log.directory).parent)
            self._drop(lambda each: each == key)

    def cut(self, key: PartitionKey, log: PartitionLog, end_offset: int) -> None:
        """Lowers the offset of a log that was truncated: new records there are not clean. Slow: syncs the
        file.
        """
        with self._lock:
            directory = Path(log.directory).parent
            offsets = self._of(directory)
            if offsets.get(key, 0) > end_offset:
                offsets[key] = end_offset
                write_offsets(directory / CLEANER_OFFSETS, offsets)

    def _drop(self, unwanted: Callable[[PartitionKey], bool]) -> None:
        for directory, offsets in self._offsets.items():
            gone = [key for key in offsets if unwanted(key)]
            for key in gone:
                del offsets[key]
            if gone:
                write_offsets(directory / CLEANER_OFFSETS, offsets)


class LogCleaner:
    """The broker's log cleaner. Only the runs themselves happen off the control loop.

    Attributes:
        figures: Values for the metrics.
        uncleanable: Logs that are not compacted until the next start, each with the reason.
    """

    def __init__(self, configs: "BrokerConfigs", metadata: "ImageSource", logs: "LogManager") -> None:
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._offsets = CleanerOffsets()
        self._throttle: IoThrottle | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._runs: dict[PartitionKey, Cleaning] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._skipped: set[PartitionKey] = set()
        self._seen = -1
        self._by_time = False
        self._changes = 0
        self.figures = CleanerFigures()
        self.uncleanable: dict[PartitionKey, str] = {}

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Starts looking for logs to clean, unless log.cleaner.enable is false."""
        if self._configs.value("log.cleaner.enable"):
            self._task = background.keep_running(self._watch, "log cleaner")

    async def stop(self) -> None:
        """Stops the runs in progress; segments that were already swapped in stay."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for run in self._runs.values():
            run.stop()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def cluster_changed(self) -> None:
        """Looks for work soon, because topics or configs changed."""
        self._changes += 1

    def topic_deleted(self, topic: str) -> None:
        """Drops all state of a deleted topic. Runs over its logs end by themselves."""
        self.uncleanable = {key: why for key, why in self.uncleanable.items() if key[0] != topic}
        asyncio.get_running_loop().run_in_executor(None, self._offsets.forget, topic)

    def log_replaced(self, topic: str, index: int, log: PartitionLog) -> None:
        """Handles the move of a log to another directory."""
        self.uncleanable.pop((topic, index), None)
        asyncio.get_running_loop().run_in_executor(None, self._offsets.begin_anew, (topic, index), log)
        self._changes += 1

    def log_truncated(self, topic: str, index: int, log: PartitionLog, end_offset: int) -> None:
        """Handles a cut of a follower's log. Slow: not for the control thread."""
        self._offsets.cut((topic, index), log, end_offset)

    # ------------------------------------------------------------ when

    @property
    def is_idle(self) -> bool:
        """Whether no run is in progress and nothing has happened that the next look might find."""
        return not self._runs and self._seen == self._written() and not self._by_time

    def _written(self) -> int:
        return self._logs.writes + self._changes

    def _something_to_see(self) -> bool:
        """Returns whether anything was written or changed since the last look, or may have become due by
        time.
        """
        written = self._written()
        found = written != self._seen or self._by_time
        self._seen = written
        return found

    async def _watch(self) -> None:
        value = self._configs.value
        while True:
            await asyncio.sleep(max(1, value("log.cleaner.backoff.ms")) / 1000)
            try:
                if self._something_to_see() and value("log.cleaner.threads") > 0:
                    await self.clean_all()
            except Exception:
                self.figures.failed += 1
                event_log.error(
                    "the log cleaner failed; it retries after log.cleaner.backoff.ms. Report the traceback "
                    "as a bug",
                    traceback=True,
                )

    async def clean_all(self) -> None:
        """Cleans until nothing is due, on at most log.cleaner.threads threads."""
        value = self._configs.value
        self._skipped.clear()
        self._by_time = False
        if self._throttle is not None:
            self._throttle.bytes_per_second = self._bytes_per_second()
        while True:
            while len(self._tasks) < value("log.cleaner.threads"):
                found = await self._choose()
                if found is None:
                    break
                run = self._runs[found[0].key] = self._cleaning(*found)
                background.spawn(self._clean(*found, run), "compaction", among=self._tasks)
            if not self._tasks:
                return
            backoff_s = max(1, value("log.cleaner.backoff.ms")) / 1000
            await asyncio.wait(self._tasks, timeout=backoff_s, return_when=asyncio.FIRST_COMPLETED)

    def _bytes_per_second(self) -> float:
        return float(max(1.0, self._configs.value("log.cleaner.io.max.bytes.per.second")))

    # ------------------------------------------------------------ which

    def _compacted(self) -> list[_Compacted]:
        configs, image = self._configs, self._metadata.image
        found = []
        for topic in image.topics:
            overrides = image.topic_configs(topic)
            if "compact" in configs.topic_value("cleanup.policy", overrides):
                settings = [
                    configs.topic_value(name, overrides)
                    for name in (
                        "min.compaction.lag.ms",
                        "max.compaction.lag.ms",
                        "min.cleanable.dirty.ratio",
                        "delete.retention.ms",
                    )
                ]
                found += [
                    _Compacted((topic, index), log, *settings)
                    for index, log in enumerate(self._logs.of_topic(topic))
                    if log is not None and not log.failed
                ]
        return found

    async def _choose(self) -> tuple[_Compacted, Candidate] | None:
        logs = [
            each
            for each in self._compacted()
            if each.key not in self._runs
            and each.key not in self.uncleanable
            and each.key not in self._skipped
        ]
        loop = asyncio.get_running_loop()
        candidates = await loop.run_in_executor(None, self._survey, logs, time.time_ns() // 1_000_000)
        self.figures.last_look = time.monotonic()
        self.figures.max_dirty_ratio = max((each.dirty_ratio for _, each in candidates), default=0.0)
        self.figures.max_delay_s = max((each.delay_ms for _, each in candidates), default=0) / 1000
        self._by_time = self._by_time or any(each.by_time for _, each in candidates)
        return filthiest(candidates)

    def _survey(self, logs: list[_Compacted], now_ms: int) -> list[tuple[_Compacted, Candidate]]:
        """Collects the facts of every log. Runs on an executor thread because it is slow with many logs."""
        return [
            (each, candidate(self._facts(each), now_ms))
            for each in logs
            if each.log.size_bytes > 0 and not each.log.failed
        ]

    def _facts(self, each: _Compacted) -> LogFacts:
        from bowstring._native.cleaner.cleaner import segment_facts

        log = each.log
        segments = segment_facts(log, first_timestamps=each.max_lag_ms < NEVER_MS)
        return LogFacts(
            segments=[SegmentFacts(*facts) for facts in segments],
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            checkpoint=self._offsets.get((each.key, log)),
            min_lag_ms=each.min_lag_ms,
            max_lag_ms=each.max_lag_ms,
            min_dirty_ratio=each.min_dirty_ratio,
        )

    # ------------------------------------------------------------ a run

    def _cleaning(self, each: _Compacted, found: Candidate) -> "Cleaning":
        from bowstring._native.cleaner.cleaner import Cleaning, IoThrottle

        value = self._configs.value
        if self._throttle is None:
            self._throttle = IoThrottle()
            self._throttle.bytes_per_second = self._bytes_per_second()
        threads = max(1, value("log.cleaner.threads"))
        return Cleaning(
            each.log,
            first_dirty_offset=found.first_dirty_offset,
            first_uncleanable_offset=found.first_uncleanable_offset,
            now_ms=time.time_ns() // 1_000_000,
            delete_retention_ms=each.delete_retention_ms,
            dedupe_bytes=min(value("log.cleaner.dedupe.buffer.size") // threads, _TABLE_MOST_BYTES),
            load_factor=min(1.0, value("log.cleaner.io.buffer.load.factor")),
            io_bytes=value("log.cleaner.io.buffer.size") // threads // 2,
            throttle=self._throttle,
        )

    async def _clean(self, each: _Compacted, found: Candidate, run: "Cleaning") -> None:
        """Runs one cleaning and logs its outcome. Never raises because of one log."""
        from bowstring._native.cleaner.cleaner import CleaningStopped, UncleanableLog

        name = f"{each.key[0]}-{each.key[1]}"
        if self._pool is None:
            self._pool = ThreadPoolExecutor(thread_name_prefix="bowstring-cleaner")
        if found.reset:
            event_log.warning(
                "the cleaner's offset lies outside the log; compaction of this log starts again from the "
                "log start",
                partition=name,
            )
        started = time.monotonic()
        try:
            figures = await asyncio.get_running_loop().run_in_executor(self._pool, self._run, each, run)
        except CleaningStopped as stopped:
            event_log.info(
                "compaction of a log stopped before its end; it is retried later",
                partition=name,
                detail=str(stopped),
            )
            self._try_later(each.key)
        except UncleanableLog as bad:
            self.uncleanable[each.key] = str(bad)
            event_log.error(
                "a log cannot be compacted and is skipped until the broker restarts; fix the cause in "
                "detail, then restart",
                partition=name,
                detail=str(bad),
            )
        except (LogError, MemoryError, OSError) as error:
            self.figures.failed += 1
            event_log.error(
                "compaction of a log failed and is retried; if it keeps failing, check the disk and free "
                "space",
                partition=name,
                detail=str(error),
            )
            self._try_later(each.key)
        else:
            self._account(name, found, figures, time.monotonic() - started)
            if figures["end_offset"] <= found.first_dirty_offset:
                self._try_later(each.key)  # no progress: do not retry at once
        finally:
            del self._runs[each.key]

    def _try_later(self, key: PartitionKey) -> None:
        self._skipped.add(key)
        self._by_time = True

    def _run(self, each: _Compacted, run: "Cleaning") -> "CleaningFigures":
        run.end_at(self._logs.sync_rolled(each.log))
        figures = run.run()
        self._offsets.put(each.key, each.log, figures["end_offset"])
        return figures

    def _account(self, name: str, found: Candidate, figures: "CleaningFigures", seconds: float) -> None:
        read, written = figures["read_bytes"], figures["written_bytes"]
        total = self.figures
        total.runs += 1
        total.read_bytes += read + figures["map_bytes"]
        total.written_bytes += written
        total.last_recopy_ratio = written / read if read else 0.0
        total.last_run_s = seconds
        total.last_table_utilization = figures["map_utilization"]
        event_log.info(
            "log compacted",
            partition=name,
            dirty=f"[{found.first_dirty_offset}, {figures['end_offset']})",
            seconds=round(seconds, 3),
            read_bytes=read,
            written_bytes=written,
            records=f"{figures['read_records']} -> {figures['written_records']}",
            removed_segments=figures["removed_segments"],
        )
        if figures["keyless_records"]:
            event_log.warning(
                "compaction dropped records without a key from a compacted topic; make the producer set keys",
                partition=name,
                records=figures["keyless_records"],
            )
