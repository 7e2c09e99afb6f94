"""Measures how far groups are behind, in records and in seconds, at a bounded cost.

A scrape gets the last measurement, and begins the next one if that is old. It runs in portions on the control
loop; the times of records are read from logs on another thread, some in each round, and remembered.
"""

import asyncio
import heapq
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background
from bowstring.protocol.errors import KafkaError

ROUND_S: Final = 5.0
PORTION: Final = 500
# This many partitions are exported: those with the largest lags. Each is a line of text in every scrape.
ROWS_MAX: Final = 2_000
# This many times of records are read in one round.
READS_MAX: Final = 100
REMEMBERED_MAX: Final = 20_000

_BASE_TIMESTAMP: Final = struct.Struct(">q")
_BASE_TIMESTAMP_AT: Final = 27

Key = tuple[str, str, int]


class Log(Protocol):
    """The methods of a PartitionLog that are needed here."""

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may read."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""

    def read(self, offset: int, max_bytes: int, /) -> bytes:
        """Returns at least the batch with the record at `offset`."""


class Lag(NamedTuple):
    """A group in one partition. `seconds`: age of the oldest record that it has not read; None if unknown."""

    group: str
    topic: str
    partition: int
    records: int
    seconds: float | None


class GroupLags:
    """The lags of the groups that this broker coordinates, in partitions of which it has a replica.

    Args:
        shards: returns the shards of groups, each with its `offsets`; raises KafkaError while one is loading.
        log_of: returns the log of a topic's partition, None without one.
        shares: returns group, topic, partition, start offset and records done after it, of share partitions.
        clock: returns seconds since 1970.
    """

    def __init__(
        self,
        shards: Callable[[], Iterable[tuple[int, Any]]],
        log_of: Callable[[str, int], Log | None],
        shares: Callable[[], Iterable[tuple[str, str, int, int, int]]] = tuple,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shards = shards
        self._log_of = log_of
        self._shares = shares
        self._clock = clock
        self._measured_at = -ROUND_S
        self._task: asyncio.Task[None] | None = None
        # The time of the record at which a group continues, by place; with the offset that it is of.
        self._times_ms: dict[tuple[str, int, int], int] = {}
        self._rows: list[tuple[int, Key, int]] = []  # lag, place, offset to continue at
        self.left_out = 0
        """Partitions with a lag that are not exported."""

    def rows(self) -> Iterator[Lag]:
        """Returns the last measurement, of the partitions most behind; may begin the next one."""
        if self._task is None and time.monotonic() - self._measured_at >= ROUND_S:
            self._begin()
        now_s = self._clock()
        for lag, (group, topic, partition), offset in self._rows:
            seconds: float | None = 0.0
            if lag:
                at_ms = self._times_ms.get((topic, partition, offset))
                seconds = None if at_ms is None else max(0.0, now_s - at_ms / 1000)
            yield Lag(group, topic, partition, lag, seconds)

    def _begin(self) -> None:
        self._measured_at = time.monotonic()
        portions = self._measure()
        if next(portions, None) is None:  # few groups: the scrape has them at once
            self._read_times(self._unknown())
            return
        self._task = background.spawn(self._finish(portions), "group lags")

    async def _finish(self, portions: Iterator[bool]) -> None:
        try:
            for _ in portions:
                await asyncio.sleep(0)
            await asyncio.to_thread(self._read_times, self._unknown())
        finally:
            self._task = None

    def _measure(self) -> Iterator[bool]:
        """Measures all groups; yields after each portion."""
        largest: list[tuple[int, Key, int]] = []
        count = behind = 0
        try:
            for key, offset, done in self._places():
                count += 1
                lag = self._lag(key[1], key[2], offset)
                if lag is not None:
                    lag = max(0, lag - done)
                    behind += lag > 0
                    _keep(largest, (lag, key, offset))
                if count >= PORTION:
                    count = 0
                    yield True
        except KafkaError:
            return  # a shard is being loaded: the measurement before stays
        self.left_out = max(0, behind - len(largest))
        self._rows = sorted(largest, reverse=True)

    def _places(self) -> Iterator[tuple[Key, int, int]]:
        """Yields where each group is, and how many records after that it has done."""
        for _, shard in self._shards():
            for group, topics in list(shard.offsets):
                for topic, partitions in list(topics.items()):
                    for partition, committed in list(partitions.items()):
                        if committed.offset >= 0:  # -1: metadata alone, of a group that reads nothing
                            yield (group, topic, partition), committed.offset, 0
        for group, topic, partition, start_offset, done in self._shares():
            yield (group, topic, partition), start_offset, done

    def _lag(self, topic: str, partition: int, offset: int) -> int | None:
        log = self._log_of(topic, partition)
        return None if log is None else max(0, log.high_watermark - max(offset, log.log_start_offset))

    def _unknown(self) -> list[tuple[str, int, int]]:
        """Returns the places whose time is read in this round; forgets unused times."""
        needed = {(topic, part, offset) for lag, (_, topic, part), offset in self._rows if lag}
        if len(self._times_ms) > REMEMBERED_MAX:
            self._times_ms = {place: at for place, at in self._times_ms.items() if place in needed}
        return [place for place in needed if place not in self._times_ms][:READS_MAX]

    def _read_times(self, places: list[tuple[str, int, int]]) -> None:
        for topic, partition, offset in places:
            log = self._log_of(topic, partition)
            if log is None:
                continue
            try:
                data = log.read(max(offset, log.log_start_offset), 1)
            except LogError:  # closed, truncated or damaged: the next round, or its readers, will notice
                continue
            if len(data) >= _BASE_TIMESTAMP_AT + _BASE_TIMESTAMP.size:
                self._times_ms[topic, partition, offset] = _BASE_TIMESTAMP.unpack_from(
                    data, _BASE_TIMESTAMP_AT
                )[0]


def _keep(largest: list[tuple[int, Key, int]], row: tuple[int, Key, int]) -> None:
    """Keeps the ROWS_MAX largest rows in a heap."""
    if len(largest) < ROWS_MAX:
        heapq.heappush(largest, row)
    elif row > largest[0]:
        heapq.heapreplace(largest, row)
