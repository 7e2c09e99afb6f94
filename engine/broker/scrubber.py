"""The scrubber: reads every segment once a round, checks each CRC, and takes what is damaged out of service.

It reads on an executor thread without the GIL, at a bounded rate, and leaves the page cache as it was.
Between two rounds, and on a broker without records, it sleeps.
"""

import asyncio
import math
import os
import time
from typing import TYPE_CHECKING, Any, Final, cast

from bowstring._native.log import PartitionLog
from bowstring._native.log_damage import scrub_piece
from bowstring._native.log_reindex import distrusted_indexes, rebuild_indexes
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.damage import CURE, report_damage

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

_PIECE_BYTES: Final = 1 << 20
_LOOK_S: Final = 30.0


class Scrubber:
    """Walks the closed segments of every log, and what of the active ones is on the medium, round by round.

    `start` and `stop` on the control loop.

    Attributes:
        rounds: How many are done.
        scrubbed_bytes: Bytes read since the start.
        damaged_ranges: Damaged ranges found since the start, each counted once.
        round_ended_s: When the last round ended, seconds since 1970; 0 before the first.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        self._known: set[tuple[str, int]] = set()
        self._distrusted = 0
        self.rounds = 0
        self.scrubbed_bytes = 0
        self.damaged_ranges = 0
        self.rebuilt_indexes = 0
        self.round_ended_s = 0.0

    def start(self) -> None:
        """Begins the first round after log.initial.task.delay.ms, unless the rate is 0."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="scrubber")

    def stop(self) -> None:
        """Ends the round that is under way."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        value = self._broker.configs.value
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
        """One round over all logs."""
        for topic, index, log in list(self._broker.logs):
            await self._scrub_log(f"{topic}-{index}", log)
        self.rounds += 1
        self.round_ended_s = time.time()

    async def _scrub_log(self, partition: str, log: PartitionLog) -> None:
        before: tuple[int, int] | None = None
        for base_offset, size_bytes, _ in log.segments():
            if before is not None and before[1] < base_offset and not self._compacted(partition):
                self._report_hole(partition, log, before[1], base_offset)
            end_offset = await self._scrub_segment(partition, log, base_offset) if size_bytes else None
            before = (base_offset, end_offset) if end_offset is not None else None

    async def _scrub_segment(self, partition: str, log: PartitionLog, base_offset: int) -> int | None:
        """The offset behind its last batch; None when the segment went away or could not be read."""
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
            rate = self._broker.configs.value("bowstring.scrub.bytes.per.second") or _PIECE_BYTES
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
            log_lines.error(
                "a segment cannot be read",
                partition=partition,
                file=error.filename,
                detail=error.strerror,
                cure=CURE,
            )

    def _compacted(self, partition: str) -> bool:
        topic = partition.rpartition("-")[0]
        overrides = self._broker.metadata.image.topic_configs(topic)
        return "compact" in self._broker.configs.topic_value("cleanup.policy", overrides)

    def _report_hole(self, partition: str, log: PartitionLog, first: int, end: int) -> None:
        key = (log.directory, end)
        if key not in self._known and end > log.log_start_offset:
            self._known.add(key)
            self.damaged_ranges += 1
            log_lines.error(
                "a segment is missing before this one, unless the topic was compacted once",
                partition=partition,
                file=f"{log.directory}/{end:020d}.log",
                first_offset=first,
                last_offset=end - 1,
                cure=CURE,
            )

    # ------------------------------------------------------------ indexes

    async def rebuild_distrusted(self) -> None:
        """Makes the indexes anew that searches have found missing, short or wrong since the last call."""
        if distrusted_indexes() == self._distrusted:
            return
        self._distrusted = distrusted_indexes()
        loop = asyncio.get_running_loop()
        for topic, index, log in list(self._broker.logs):
            try:
                rebuilt = await loop.run_in_executor(None, rebuild_indexes, log)
            except OSError as error:
                log_lines.error(
                    "an index could not be made anew", partition=f"{topic}-{index}", detail=str(error)
                )
                continue
            self.rebuilt_indexes += len(rebuilt)
            for base_offset in rebuilt:
                log_lines.warning(
                    "an index was missing or damaged and was made anew",
                    partition=f"{topic}-{index}",
                    file=os.path.join(log.directory, f"{base_offset:020d}.index"),
                )


def _piece_of(log: PartitionLog, base_offset: int, position: int, next_offset: int) -> dict[str, Any] | None:
    piece = scrub_piece(log, base_offset, position=position, next_offset=next_offset, max_bytes=_PIECE_BYTES)
    return cast("dict[str, Any] | None", piece)
