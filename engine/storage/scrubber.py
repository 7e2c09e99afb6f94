"""Reads every segment once a round, checks each CRC, and takes damaged ranges out of service.

Reads on an executor thread without the GIL, at a bounded rate, and keeps its data out of the page cache.
Sleeps between rounds and when there are no records.
"""

import asyncio
import math
import os
import time
from typing import TYPE_CHECKING, Any, Final, cast

from bowstring._native.log.partition_log import PartitionLog, distrusted_indexes
from bowstring.engine import background, event_log
from bowstring.engine.storage.damage import CURE, report_damage

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_manager import LogManager

_PIECE_BYTES: Final = 1 << 20
_EMPTY_AT_ONCE: Final = 256
_LOOK_S: Final = 30.0


class Scrubber:
    """Checks, round by round, the closed segments of every log and the durable part of the active ones.

    Call `start` and `stop` on the control loop.

    Attributes:
        rounds: Rounds completed.
        scrubbed_bytes: Bytes read since the start.
        damaged_ranges: Damaged ranges found since the start, each counted once.
        round_ended_s: End of the last round, seconds since 1970; 0 before the first.
    """

    def __init__(self, configs: "BrokerConfigs", metadata: "ImageSource", logs: "LogManager") -> None:
        self._configs = configs
        self._metadata = metadata
        self._logs = logs
        self._task: asyncio.Task[None] | None = None
        self._known: set[tuple[str, int]] = set()
        self._distrusted = 0
        self.rounds = 0
        self.scrubbed_bytes = 0
        self.damaged_ranges = 0
        self.rebuilt_indexes = 0
        self.round_ended_s = 0.0

    def start(self) -> None:
        """Starts the first round after log.initial.task.delay.ms, unless the rate is 0."""
        if self._task is None:
            self._task = background.keep_running(self._run, "scrubber")

    def stop(self) -> None:
        """Stops the round in progress."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        value = self._configs.value
        await asyncio.sleep(value("log.initial.task.delay.ms") / 1000)
        is_on = value("bowstring.scrub.bytes.per.second") > 0
        due = time.monotonic() if is_on else math.inf
        while True:
            if time.monotonic() >= due:
                due = time.monotonic() + value("bowstring.scrub.interval.ms") / 1000
                await self.scrub_all()
            await self.rebuild_distrusted()
            await asyncio.sleep(min(_LOOK_S, max(0.0, due - time.monotonic())))

    # ------------------------------------------------------------ a round

    async def scrub_all(self) -> None:
        """Runs one round over all logs."""
        for count, (topic, index, log) in enumerate(list(self._logs), 1):
            if log.size_bytes > 0:  # most of many partitions are empty, and a turn of a thread costs more
                await self._scrub_log(f"{topic}-{index}", log)
            elif count % _EMPTY_AT_ONCE == 0:
                await asyncio.sleep(0)
        self.rounds += 1
        self.round_ended_s = time.time()

    async def _scrub_log(self, partition: str, log: PartitionLog) -> None:
        before: tuple[int, int] | None = None
        segments = await asyncio.get_running_loop().run_in_executor(None, log.segments)
        for base_offset, size_bytes, _ in segments:
            if before is not None and before[1] < base_offset and not self._compacted(partition):
                self._report_hole(partition, log, before[1], base_offset)
            end_offset = await self._scrub_segment(partition, log, base_offset) if size_bytes else None
            before = (base_offset, end_offset) if end_offset is not None else None

    async def _scrub_segment(self, partition: str, log: PartitionLog, base_offset: int) -> int | None:
        """Checks one segment; returns the offset after its last batch, or None if it was deleted or could not
        be read.
        """
        loop = asyncio.get_running_loop()
        position, next_offset = 0, base_offset
        while True:
            started = time.monotonic()
            try:
                piece = await loop.run_in_executor(None, _piece_of, log, base_offset, position, next_offset)
            except OSError as error:
                self._unreadable(partition, error)
                return None
            if piece is None:
                return None
            self._found(partition, f"{log.directory}/{base_offset:020d}.log", piece["damage"])
            read_bytes = piece["position"] - position
            self.scrubbed_bytes += read_bytes
            position, next_offset = piece["position"], piece["next_offset"]
            rate = self._configs.value("bowstring.scrub.bytes.per.second") or _PIECE_BYTES
            await asyncio.sleep(max(0.0, started + read_bytes / rate - time.monotonic()))
            if piece["done"]:
                return cast("int", next_offset)

    def _found(self, partition: str, path: str, damage: list[dict[str, Any]]) -> None:
        new = [each for each in damage if (path, each["position"]) not in self._known]
        self._known.update((path, each["position"]) for each in new)
        self.damaged_ranges += len(new)
        report_damage(partition, path, new)

    def _unreadable(self, partition: str, error: OSError) -> None:
        key = (str(error.filename), -1)
        if key not in self._known:
            self._known.add(key)
            self.damaged_ranges += 1
            event_log.error(
                "the scrubber cannot read a segment",
                partition=partition,
                file=error.filename,
                detail=error.strerror,
                cure=CURE,
            )

    def _compacted(self, partition: str) -> bool:
        topic = partition.rpartition("-")[0]
        overrides = self._metadata.image.topic_configs(topic)
        return "compact" in self._configs.topic_value("cleanup.policy", overrides)

    def _report_hole(self, partition: str, log: PartitionLog, first: int, end: int) -> None:
        key = (log.directory, end)
        if key not in self._known and end > log.log_start_offset:
            self._known.add(key)
            self.damaged_ranges += 1
            event_log.error(
                "a segment is missing before this one; ignore this if the topic was compacted before",
                partition=partition,
                file=f"{log.directory}/{end:020d}.log",
                first_offset=first,
                last_offset=end - 1,
                cure=CURE,
            )

    # ------------------------------------------------------------ indexes

    async def rebuild_distrusted(self) -> None:
        """Rebuilds the indexes that searches have found missing, short or wrong since the last call."""
        if distrusted_indexes() == self._distrusted:
            return
        # Not at start: few brokers ever find a wrong index.
        from bowstring._native.log.index_rebuild import rebuild_indexes

        self._distrusted = distrusted_indexes()
        loop = asyncio.get_running_loop()
        for topic, index, log in list(self._logs):
            try:
                rebuilt = await loop.run_in_executor(None, rebuild_indexes, log)
            except OSError as error:
                event_log.error(
                    "an index could not be rebuilt; lookups in its segment are slower. Check the disk and "
                    "free space",
                    partition=f"{topic}-{index}",
                    detail=str(error),
                )
                continue
            self.rebuilt_indexes += len(rebuilt)
            for base_offset in rebuilt:
                event_log.warning(
                    "an index was missing or damaged and was rebuilt; no action is needed",
                    partition=f"{topic}-{index}",
                    file=os.path.join(log.directory, f"{base_offset:020d}.index"),
                )


def _piece_of(log: PartitionLog, base_offset: int, position: int, next_offset: int) -> dict[str, Any] | None:
    # Not at start: the first round begins later, or never.
    from bowstring._native.log.scrub import scrub_piece

    piece = scrub_piece(log, base_offset, position=position, next_offset=next_offset, max_bytes=_PIECE_BYTES)
    return cast("dict[str, Any] | None", piece)
