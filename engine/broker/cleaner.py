"""Log compaction in a broker: threads that take the filthiest log, one after the other.

What is cleaned and when is decided in cleaner_choice.py, how in _native/cleaner.pyx. While nothing is
written nobody looks: an idle broker's cleaner wakes every log.cleaner.backoff.ms, compares two counters and
sleeps on.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.cleaner import (
    Cleaning,
    CleaningStopped,
    IoThrottle,
    UncleanableLog,
    segment_facts,
)
from bowstring._native.log import LogError, PartitionLog
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.checkpoints import CheckpointError, PartitionKey, read_offsets, write_offsets
from bowstring.engine.broker.cleaner_choice import (
    NEVER_MS,
    Candidate,
    LogFacts,
    SegmentFacts,
    candidate,
    filthiest,
)

if TYPE_CHECKING:
    from bowstring._native.cleaner import CleaningFigures
    from bowstring.engine.broker.broker import Broker

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_TABLE_MOST_BYTES: Final = (1 << 31) - 1


class _Compacted(NamedTuple):
    """A log with cleanup.policy=compact, and the settings that bear on it."""

    key: PartitionKey
    log: PartitionLog
    min_lag_ms: int
    max_lag_ms: int
    min_dirty_ratio: float
    delete_retention_ms: int


@dataclass
class CleanerFigures:
    """What the metrics show. Times in seconds; ratios between 0 and 1."""

    runs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    max_dirty_ratio: float = 0.0
    max_delay_s: float = 0.0
    last_recopy_ratio: float = 0.0
    last_run_s: float = 0.0
    last_table_utilization: float = 0.0
    last_look: float = field(default_factory=time.monotonic)
    failed: int = 0


class CleanerOffsets:
    """cleaner-offset-checkpoint of each log directory: where the next run's dirty part begins."""

    def __init__(self) -> None:
        self._offsets: dict[Path, dict[PartitionKey, int]] = {}
        self._lock = Lock()

    def _of(self, directory: Path) -> dict[PartitionKey, int]:
        found = self._offsets.get(directory)
        if found is None:
            try:
                found = read_offsets(directory / CLEANER_OFFSETS)
            except (CheckpointError, OSError) as error:
                log_lines.warning(
                    "the cleaner's offsets cannot be read; logs are compacted from their beginning",
                    detail=str(error),
                )
                found = {}
            self._offsets[directory] = found
        return found

    def get(self, item: tuple[PartitionKey, PartitionLog]) -> int | None:
        """Where the last run over a log ended, if there was one."""
        with self._lock:
            return self._of(Path(item[1].directory).parent).get(item[0])

    def put(self, key: PartitionKey, log: PartitionLog, offset: int) -> None:
        """Enters it and writes the file. Slow: it waits for the medium."""
        with self._lock:
            directory = Path(log.directory).parent
            offsets = self._of(directory)
            if offsets.get(key) != offset:
                offsets[key] = offset
                write_offsets(directory / CLEANER_OFFSETS, offsets)

    def forget(self, topic: str) -> None:
        """A topic is deleted: one of the same name that comes later begins anew."""
        with self._lock:
            self._drop(lambda key: key[0] == topic)

    def begin_anew(self, key: PartitionKey, log: PartitionLog) -> None:
        """A copy in another directory has taken a log's place: it may hold what was cleaned away."""
        with self._lock:
            self._of(Path(log.directory).parent)
            self._drop(lambda each: each == key)

    def _drop(self, unwanted: Callable[[PartitionKey], bool]) -> None:
        for directory, offsets in self._offsets.items():
            gone = [key for key in offsets if unwanted(key)]
            for key in gone:
                del offsets[key]
            if gone:
                write_offsets(directory / CLEANER_OFFSETS, offsets)


class LogCleaner:
    """The broker's cleaner. Everything but the runs themselves happens on the control loop.

    Attributes:
        figures: What the metrics show.
        uncleanable: Logs that are left alone until the next start, each with the reason.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._offsets = CleanerOffsets()
        self._throttle = IoThrottle()
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
        """Begins to look for work, unless log.cleaner.enable forbids it."""
        if self._broker.configs.value("log.cleaner.enable"):
            self._task = asyncio.create_task(self._watch(), name="log cleaner")

    async def stop(self) -> None:
        """Ends runs that are under way; what they have put in place stays."""
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
        """Topics or configs changed: worth a look."""
        self._changes += 1

    def topic_deleted(self, topic: str) -> None:
        """Nothing of the topic is remembered. Runs over its logs end by themselves."""
        self.uncleanable = {key: why for key, why in self.uncleanable.items() if key[0] != topic}
        asyncio.get_running_loop().run_in_executor(None, self._offsets.forget, topic)

    def log_replaced(self, topic: str, index: int, log: PartitionLog) -> None:
        """A log has moved to another directory."""
        self.uncleanable.pop((topic, index), None)
        asyncio.get_running_loop().run_in_executor(None, self._offsets.begin_anew, (topic, index), log)
        self._changes += 1

    # ------------------------------------------------------------ when

    def _something_to_see(self) -> bool:
        """Whether anything was written or changed since the last look, or may have become due by time."""
        produced = self._broker.plane.counters()["produce"]["requests"]
        written = int(produced) + self._broker.control_writes + self._changes
        found = written != self._seen or self._by_time
        self._seen = written
        return found

    async def _watch(self) -> None:
        value = self._broker.configs.value
        while True:
            await asyncio.sleep(max(1, value("log.cleaner.backoff.ms")) / 1000)
            try:
                if self._something_to_see() and value("log.cleaner.threads") > 0:
                    await self._clean_all()
            except Exception:
                self.figures.failed += 1
                log_lines.error("the log cleaner failed; it goes on", traceback=True)

    async def _clean_all(self) -> None:
        """Cleans until nothing is due, on at most log.cleaner.threads threads."""
        value = self._broker.configs.value
        self._skipped.clear()
        self._by_time = False
        self._throttle.bytes_per_second = max(1.0, value("log.cleaner.io.max.bytes.per.second"))
        while True:
            while len(self._tasks) < value("log.cleaner.threads"):
                found = await self._choose()
                if found is None:
                    break
                run = self._runs[found[0].key] = self._cleaning(*found)
                task = asyncio.create_task(self._clean(*found, run))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if not self._tasks:
                return
            backoff_s = max(1, value("log.cleaner.backoff.ms")) / 1000
            await asyncio.wait(self._tasks, timeout=backoff_s, return_when=asyncio.FIRST_COMPLETED)

    # ------------------------------------------------------------ which

    def _compacted(self) -> list[_Compacted]:
        configs, image = self._broker.configs, self._broker.metadata.image
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
                    for index, log in enumerate(self._broker.logs.of_topic(topic))
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
        """On a thread: with many logs it takes its time."""
        return [
            (each, candidate(self._facts(each), now_ms))
            for each in logs
            if each.log.size_bytes > 0 and not each.log.failed
        ]

    def _facts(self, each: _Compacted) -> LogFacts:
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

    def _cleaning(self, each: _Compacted, found: Candidate) -> Cleaning:
        value = self._broker.configs.value
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

    async def _clean(self, each: _Compacted, found: Candidate, run: Cleaning) -> None:
        """One run; whatever it ends with, the broker goes on."""
        name = f"{each.key[0]}-{each.key[1]}"
        if self._pool is None:
            self._pool = ThreadPoolExecutor(thread_name_prefix="bowstring-cleaner")
        if found.reset:
            log_lines.warning("the cleaner's offset lies outside the log; it begins anew", partition=name)
        started = time.monotonic()
        try:
            figures = await asyncio.get_running_loop().run_in_executor(self._pool, self._run, each, run)
        except CleaningStopped as stopped:
            log_lines.info("compaction stopped", partition=name, detail=str(stopped))
            self._try_later(each.key)
        except UncleanableLog as bad:
            self.uncleanable[each.key] = str(bad)
            log_lines.error("a partition cannot be compacted", partition=name, detail=str(bad))
        except (LogError, MemoryError, OSError) as error:
            self.figures.failed += 1
            log_lines.error("compaction failed; it will be tried again", partition=name, detail=str(error))
            self._try_later(each.key)
        else:
            self._account(name, found, figures, time.monotonic() - started)
            if figures["end_offset"] <= found.first_dirty_offset:
                self._try_later(each.key)  # nothing came of it: not again at once
        finally:
            del self._runs[each.key]

    def _try_later(self, key: PartitionKey) -> None:
        self._skipped.add(key)
        self._by_time = True

    def _run(self, each: _Compacted, run: Cleaning) -> "CleaningFigures":
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
        log_lines.info(
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
            log_lines.warning(
                "records without a key were dropped from a compacted topic",
                partition=name,
                records=figures["keyless_records"],
            )
