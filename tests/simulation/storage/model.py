"""A model of a broker's promises, and checks that it keeps them."""

import time
from dataclasses import dataclass, field
from enum import IntEnum

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.record.decode import decode_batches
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from tests.support.log_batches import Header, headers

RECORD_LIST_TOO_LARGE = 18  # segments became smaller meanwhile


class Acked(IntEnum):
    """The failure that an acknowledged batch survives."""

    NOT = 0
    KILL = 1  # of the process: it is in the page cache
    POWER = 2  # of power: it is on the medium


@dataclass(eq=False)
class Put:
    """A batch that was, or may have been, appended."""

    base: int
    data: bytes
    producer: int = -1
    sequence: int = -1
    acked: Acked = Acked.NOT
    # until it is acknowledged: the frame it waits for
    wal: WriteAheadLog | None = None
    frame: int = 0
    # only in the page cache, and no sync will bring it to the medium: one has failed. The write-ahead log may
    doubtful: bool = False

    @property
    def last(self) -> int:
        return self.base + int.from_bytes(self.data[57:61], "big") - 1

    @property
    def body(self) -> bytes:
        """The bytes from the CRC on, which the log does not assign."""
        return self.data[17:]

    def records(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        """offset -> key, value."""
        return {self.base + i: (each.key, each.value) for i, each in enumerate(decode_batches(self.data))}


@dataclass(eq=False)
class Partition:
    """The model of one partition.

    Attributes:
        puts: Appended batches by offset; a refused one may be among them.
        ever: The same, including batches that compaction may have removed.
        start: Offset below which records were deleted, so that they may be missing.
        may_have_gaps: A sync failed, and power loss may have taken data that only the page cache had.
        tombstones: Keys and the offsets at which they were deleted: compaction takes these records, too.
        compacted: It was compacted at some time, so records that newer ones replaced may be gone.
    """

    topic: str
    index: int
    puts: list[Put] = field(default_factory=list)
    ever: dict[tuple[int, int], list[Put]] = field(default_factory=dict)
    start: int = 0
    deleted: list[Put] = field(default_factory=list)
    compacted: bool = False
    sequences: dict[int, int] = field(default_factory=dict)
    tombstones: dict[bytes | None, int] = field(default_factory=dict)
    may_have_gaps: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    def put(self, put: Put) -> None:
        """Notes that a batch may be in the log from now on."""
        self.puts.append(put)
        self.ever.setdefault((put.base, put.last), []).append(put)
        if self.compacted:
            self.tombstones |= {
                key: offset for offset, (key, value) in put.records().items() if value is None
            }

    def refuse(self, put: Put) -> None:
        """Notes that a batch is certainly not in the log."""
        self.puts.remove(put)
        self.ever[put.base, put.last].remove(put)

    def sync_failed(self) -> None:
        """Notes a failed sync: the kernel drops unwritten data, but readers see it until a power loss."""
        for put in self.puts:
            if put.acked < Acked.POWER:
                put.doubtful = self.may_have_gaps = True

    # ------------------------------------------------------------ after a start

    def check(self, log: PartitionLog, survived: Acked) -> None:
        """Checks that all acknowledged data survived, and that the log has nothing that was not appended.

        The model then adopts the log's contents.
        """
        assert not log.failed, f"{log!r} is out of service"
        seen = read_all(log, self)
        found = [self._which(each) for each in seen]
        if self.compacted:
            self._check_newest(seen, survived)
        else:
            self._check_all(seen, found, log, survived)
        assert log.log_start_offset <= self.start, (
            f"{self.name} begins at {log.log_start_offset}, not at {self.start}"
        )
        self.deleted += [put for put in self.puts if put.last < log.log_start_offset]
        self.puts = found
        self.ever = {(put.base, put.last): [put] for put in found} if not self.compacted else self.ever
        self.tombstones = {key: at for key, at in self.tombstones.items() if at < log.log_end_offset}
        self.sequences = {}
        for put in self.deleted + found:  # deleted batches still count for their producer
            put.frame = 0
            put.doubtful = put.doubtful and survived is not Acked.POWER
            if put.producer >= 0:
                self.sequences[put.producer] = put.sequence + put.last - put.base + 1
        self._check_duplicate(log)

    def _which(self, header: Header) -> Put:
        for put in self.ever.get((header.base_offset, header.last_offset), []):
            if put.body == header.data[17:] or (self.compacted and contains(put, header)):
                return put
        raise AssertionError(
            f"{self.name} has a batch at {header.base_offset}..{header.last_offset} that nobody appended"
        )

    def _check_all(self, seen: list[Header], found: list[Put], log: PartitionLog, survived: Acked) -> None:
        position = log.log_start_offset
        for each in seen:
            if self.may_have_gaps:
                position = max(position, each.base_offset)
            assert each.base_offset <= position <= each.last_offset, (
                f"{self.name}: {each.base_offset}..{each.last_offset} where {position} should be"
            )
            position = each.last_offset + 1
        assert position == log.log_end_offset or self.may_have_gaps, (
            f"{self.name} ends at {position}, not at {log.log_end_offset}"
        )
        there = set(found)
        lost = [put for put in self.owed(survived) if put not in there]
        assert not lost, (
            f"{self.name} has lost {[(put.base, put.last, put.acked.name) for put in lost[:5]]} of {log!r}"
        )

    def _check_newest(self, seen: list[Header], survived: Acked) -> None:
        """Checks that each key has its newest acknowledged record, or a newer one."""
        newest = dict(self.tombstones)
        for each in seen:
            for record in decode_batches(each.data):
                newest[record.key] = max(record.offset, newest.get(record.key, -1))
        for put in self.owed(survived):
            for offset, (key, _) in put.records().items():
                assert newest.get(key, -1) >= offset, (
                    f"{self.name} has lost {key!r} at {offset} ({put.acked.name})"
                )

    def owed(self, survived: Acked) -> list[Put]:
        """Returns the batches that must be in the log after this failure."""
        return [
            put
            for put in self.puts
            if put.acked >= survived
            and put.last >= self.start
            and not (put.doubtful and survived is Acked.POWER)
        ]

    def _check_duplicate(self, log: PartitionLog) -> None:
        """Checks that the newest batch is detected when its producer sends it again."""
        if self.puts and self.puts[-1].producer >= 0:
            put, end = self.puts[-1], log.log_end_offset
            try:
                base = log.append(put.data, max(0, log.leader_epoch), time.time_ns() // 1_000_000)
            except LogError as error:
                assert error.code == RECORD_LIST_TOO_LARGE, f"{self.name} refuses a duplicate: {error}"
                return
            assert (base, log.log_end_offset) == (put.base, end), (
                f"{self.name} took a duplicate of {put.base}"
            )


def contains(put: Put, header: Header) -> bool:
    """Whether a batch may be the result of compacting another one."""
    originals = put.records()
    return all(originals.get(each.offset) == (each.key, each.value) for each in decode_batches(header.data))


def read_all(log: PartitionLog, partition: Partition) -> list[Header]:
    """Returns every batch from the log start to its end."""
    found: list[Header] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        try:
            data = log.read(position, 1 << 16, "log_end")
        except LogError:
            if not partition.may_have_gaps:
                raise
            position += 1
            continue
        if not data and (partition.compacted or partition.may_have_gaps):
            break  # compaction removed the batch
        assert data, f"nothing at {position} of {log!r}"
        found += headers(data)
        position = found[-1].last_offset + 1
    return found
