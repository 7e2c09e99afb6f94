"""Waits for records of share partitions and acquires them, for one ShareFetch request."""

import asyncio
from typing import Final, NamedTuple

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.share.partition import last_offset
from bowstring.engine.share.leader.settings import ShareSettings
from bowstring.engine.share.leader.share_partition import LedSharePartition, steady_ms
from bowstring.engine.share.leader.share_partitions import SharePartitions
from bowstring.engine.share.sessions import SessionKey, SessionPartition
from bowstring.protocol.errors import Error, Errors, KafkaError

_READ_MIN_BYTES: Final = 16 << 10
_READ_MORE: Final = 4
# Records of different size: so much more is read than those of the last fetch took.
_READ_SLACK: Final = 1.25


class ShareFetchOptions(NamedTuple):
    """What a member requests.

    Attributes:
        record_limit: No more than `max_records`, even if that cuts a batch (KIP-1206).
        batch_size: Least records of one acquired range, unless fewer are left.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    record_limit: bool


class Fetched(NamedTuple):
    """What a member gets of a partition: whole batches, and (first, last offset, delivery count) of the
    ranges that it has acquired.
    """

    error: Error
    records: bytes = b""
    acquired: tuple[tuple[int, int, int], ...] | list[tuple[int, int, int]] = ()


_NOTHING: Final = Fetched(Errors.NONE)


def rotated(partitions: list[SessionPartition], session_epoch: int) -> list[SessionPartition]:
    """Returns the partitions, beginning with another one in each request of a session."""
    if len(partitions) < 2 or session_epoch < 1:
        return partitions
    first = session_epoch % len(partitions)
    return partitions[first:] + partitions[:first]


class ShareFetch:
    """One request: the partitions that it waits for, and their records.

    It is answered when at least `min_bytes` can be read, when all partitions failed, or after `max_wait_ms`.
    """

    def __init__(
        self,
        partitions: SharePartitions,
        member: SessionKey,
        settings: ShareSettings,
        wanted: list[SessionPartition],
        options: ShareFetchOptions,
    ) -> None:
        self._partitions = partitions
        self._member = member
        self._settings = settings
        self._wanted = wanted
        self._options = options
        self._answers: dict[SessionPartition, Fetched] = {}
        self._joined: dict[SessionPartition, LedSharePartition] = {}
        self._log_waits: dict[SessionPartition, int] = {}
        self._woken = asyncio.Event()
        self._given_up = False
        self._time_over = False

    def give_up(self) -> None:
        """Stops acquiring: the connection ended, and no member would get or give back the records."""
        self._given_up = True
        self._woken.set()

    def _end_wait(self) -> None:
        """Ends the wait, also when the timer rings before the loop's clock has reached the deadline: uvloop's
        has whole milliseconds.
        """
        self._time_over = True
        self._woken.set()

    async def run(self) -> dict[SessionPartition, Fetched]:
        """Returns the records of each partition; without those that had none before the time was over."""
        if not self._wanted or self._options.max_records <= 0 or self._options.max_bytes <= 0:
            return {}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.max_wait_ms / 1000
        timer: asyncio.TimerHandle | None = None
        try:
            while not self._given_up and not await self._attempt(
                is_last=self._time_over or loop.time() >= deadline
            ):
                if timer is None:
                    timer = loop.call_at(deadline, self._end_wait)
                if self._wait_for_logs() and not self._given_up:
                    await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()
            for partition in self._joined.values():
                partition.waiting.pop(self._woken, None)
            for number in self._log_waits.values():
                self._partitions.stop_waiting(number)
        return self._answers

    async def _attempt(self, *, is_last: bool) -> bool:
        """Acquires records if there are enough, or if there is no more time. Whether the request is over."""
        self._woken.clear()
        ready: list[tuple[SessionPartition, LedSharePartition, PartitionLog]] = []
        try:
            async for wanted in self._partitions.time_slices.each(self._wanted):
                if wanted not in self._answers and (found := self._look_at(wanted)) is not None:
                    ready.append((wanted, *found))
            if len(self._answers) == len(self._wanted):
                return True
            if ready and (is_last or self._enough(ready)):
                await self._acquire(ready)
                return True
            return is_last
        finally:
            for _, partition, _ in ready:
                partition.give_turn()

    def _look_at(self, wanted: SessionPartition) -> tuple[LedSharePartition, PartitionLog] | None:
        """Returns a partition from which records can be acquired now; it is this request's turn then."""
        joined = self._joined.get(wanted)
        if joined is not None and (error := joined.load_error) is not None:
            self._answers[wanted] = Fetched(error)
            return None
        try:
            partition, log = self._partitions.get(self._member.group_id, wanted)
        except KafkaError as failed:
            self._answers[wanted] = Fetched(failed.error)
            return None
        if joined is not partition:
            if joined is not None:
                joined.waiting.pop(self._woken, None)
            self._joined[wanted] = partition
            partition.waiting[self._woken] = None
        if not partition.is_active or not partition.take_turn():
            return None
        if not partition.window.can_acquire:
            partition.give_turn()
            return None
        return partition, log

    def _enough(self, ready: list[tuple[SessionPartition, LedSharePartition, PartitionLog]]) -> bool:
        """Whether `min_bytes` can be read, or a partition cannot be read."""
        found, most = 0, self._options.max_bytes // len(ready)
        for _, partition, log in ready:
            offset = partition.window.next_fetch_offset
            limit = log.last_stable_offset if self._settings.committed else log.high_watermark
            if not log.log_start_offset <= offset <= limit:
                return True
            if offset < limit:
                found += min(max(1, log.bytes_between(offset, limit)), most)
        return found >= min(self._options.min_bytes, self._options.max_bytes)

    def _wait_for_logs(self) -> bool:
        """Waits for each log to move. False when a wait has only begun: look at the log again."""
        complete = True
        for wanted, partition in self._joined.items():
            if wanted in self._answers or partition.dropped or wanted in self._log_waits:
                continue
            number = self._partitions.wait_for_log(wanted, self._log_moved)
            if number is not None:
                self._log_waits[wanted] = number
                complete = False
        return complete

    def _log_moved(self, wanted: SessionPartition) -> None:
        self._log_waits.pop(wanted, None)
        self._woken.set()

    # ------------------------------------------------------------ records

    async def _acquire(self, ready: list[tuple[SessionPartition, LedSharePartition, PartitionLog]]) -> None:
        left, most_bytes = self._options.max_records, max(1, self._options.max_bytes // len(ready))
        async for wanted, partition, log in self._partitions.time_slices.each(ready):
            try:
                fetched, count = await self._acquire_from(partition, log, left, most_bytes)
            except LogError as error:
                fetched, count = self._not_readable(partition, log, error), 0
            self._answers[wanted] = fetched
            left -= count

    def _not_readable(self, partition: LedSharePartition, log: PartitionLog, error: LogError) -> Fetched:
        if error.code == Errors.OFFSET_OUT_OF_RANGE.code:
            # The log begins later now; the member fetches again.
            partition.window.log_start_moved(log.log_start_offset)
            return _NOTHING
        return Fetched(Errors.of(error.code))

    async def _acquire_from(
        self, partition: LedSharePartition, log: PartitionLog, count: int, most_bytes: int
    ) -> tuple[Fetched, int]:
        if count <= 0:
            return _NOTHING, 0
        offset = partition.window.next_fetch_offset
        records, aborted = await self._read(partition, log, offset, count, most_bytes)
        if not partition.is_active or self._given_up:
            return _NOTHING, 0
        acquired, got, sent = partition.window.acquire(
            self._partitions.member_number(self._member),
            records,
            fetch_offset=offset,
            max_records=count,
            batch_size=self._options.batch_size,
            now_ms=steady_ms(),
            record_limit=self._options.record_limit,
            aborted=aborted,
        )
        partition.schedule()
        return Fetched(Errors.NONE, sent, acquired), got

    async def _read(
        self, partition: LedSharePartition, log: PartitionLog, offset: int, count: int, most_bytes: int
    ) -> tuple[bytes, list[tuple[int, int]] | None]:
        """Reads the batches from `offset` on with about `count` records that can be acquired, and for
        read_committed the transactions that were aborted.
        """
        wanted = partition.window.wanted_last(offset, count)
        guess = (wanted - offset + 1) * partition.bytes_per_record * _READ_SLACK
        size = int(min(most_bytes, max(_READ_MIN_BYTES, guess)))
        limit = log.last_stable_offset if self._settings.committed else log.high_watermark
        while True:
            records = await self._read_batches(log, offset, size)
            last = last_offset(records)
            if last >= wanted or last + 1 >= limit or size >= most_bytes or not records:
                break
            size = min(size * _READ_MORE, most_bytes)
        if last >= offset:
            partition.bytes_per_record = len(records) / (last - offset + 1)
        if not self._settings.committed or not records:
            return records, None
        return records, await self._partitions.disk_reads.run(log.aborted_transactions, offset, last + 1)

    async def _read_batches(self, log: PartitionLog, offset: int, size: int) -> bytes:
        if self._settings.committed:
            records = log.read_from_memory(offset, size, "last_stable")
            if records is None:
                return await self._partitions.disk_reads.run(log.read, offset, size, "last_stable")
            return records
        records = log.read_from_memory(offset, size)
        return await self._partitions.disk_reads.run(log.read, offset, size) if records is None else records
