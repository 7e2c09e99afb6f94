"""A node's disk: the log, the snapshots and quorum-state; separates durable data from merely written data.

Writes are operations in order. A sync makes durable the writes that were there when it began. A crash keeps
the durable ones and a prefix of the others; the batch after the prefix may be torn. The next start finds
damage in the medium; if the damage is below the synced data, the node must not start again with it.
"""

from bisect import bisect_right
from typing import NamedTuple

from bowstring._native.record.decode import batch_headers
from bowstring._native.record.types import CorruptBatch
from bowstring.engine.raft.keys import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch
from bowstring.engine.raft.log import NotAppendedError
from tests.simulation.quorum.batches import SnapshotDamaged, read_snapshot


class Batch(NamedTuple):
    base: int
    end: int
    epoch: int
    data: bytes


class DiskDamaged(Exception):
    """The start finds that synced bytes are lost."""


class LogView:
    """Batches without gaps, and the snapshot that they begin after."""

    def __init__(self):
        self.start = 0
        self.batches: list[Batch] = []
        self.bases: list[int] = []
        # (epoch, offset of its first record)
        self.epochs: list[tuple[int, int]] = []

    def copy(self):
        new = LogView()
        new.start, new.batches, new.bases = self.start, self.batches[:], self.bases[:]
        new.epochs = self.epochs[:]
        return new

    @property
    def end(self):
        return self.batches[-1].end if self.batches else self.start

    def apply(self, operation):
        kind, argument = operation
        if kind == "append":
            assert argument.base == self.end, (argument, self.end)
            self.batches.append(argument)
            self.bases.append(argument.base)
            if not self.epochs or self.epochs[-1][0] < argument.epoch:
                self.epochs.append((argument.epoch, argument.base))
        elif kind == "truncate":
            while self.batches and self.batches[-1].end > argument:
                self.batches.pop()
                self.bases.pop()
            while self.epochs and self.epochs[-1][1] >= self.end:
                self.epochs.pop()
        else:
            assert kind == "restart", kind
            self.start, self.batches, self.bases, self.epochs = argument, [], [], []

    def cut_below(self, offset):
        """Lets the log start at a batch."""
        at = bisect_right(self.bases, offset - 1)
        assert at == len(self.bases) or self.bases[at] == offset, offset
        del self.batches[:at], self.bases[:at]
        self.start = offset
        kept = [(epoch, max(start, offset)) for epoch, start in self.epochs]
        nexts = [*(start for _, start in self.epochs[1:]), self.end]
        self.epochs = [each for each, until in zip(kept, nexts, strict=True) if until > offset]

    def at(self, offset) -> Batch | None:
        """The batch with the record at this offset."""
        place = bisect_right(self.bases, offset) - 1
        return self.batches[place] if place >= 0 and offset < self.batches[place].end else None


class Disk:
    """What survives the lives of a node. It is also the `RaftLog` of the present life."""

    def __init__(self):
        self.durable = LogView()
        self.view = LogView()
        self.quorum_state: str | None = None
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        self.part: tuple[OffsetAndEpoch, bytearray] | None = None
        # Operations that are not durable; the first one's number is `synced`.
        self.pending: list[tuple] = []
        self.synced = 0
        self.durable_end = 0
        self.damaged = False
        # How many more batches can be appended until there are descriptors again; None: any number.
        self.room: int | None = None
        # (disk, first new batch) after each append; set by the world.
        self.on_append = lambda batch: None
        self.on_truncate = lambda offset: None

    # ---- RaftLog

    @property
    def start_offset(self):
        return self.view.start

    @property
    def end_offset(self):
        return self.view.end

    @property
    def last_epoch(self):
        if self.view.batches:
            return self.view.batches[-1].epoch
        id = self.latest_snapshot_id()
        return 0 if id is None else id.epoch

    def append(self, data):
        at = 0
        for header in batch_headers(data):
            if self.room is not None:
                if self.room == 0:
                    raise NotAppendedError("there is no room")
                self.room -= 1
            end = at + header.size_bytes
            batch = Batch(
                header.base_offset, header.last_offset + 1, header.leader_epoch, bytes(data[at:end])
            )
            self.write(("append", batch))
            self.on_append(batch)
            at = end

    def truncate_to(self, offset):
        self.on_truncate(offset)
        self.write(("truncate", offset))

    def end_offset_for_epoch(self, epoch):
        place = bisect_right(self.view.epochs, (epoch, 1 << 62)) - 1
        if place < 0:
            id = self.earliest_snapshot_id()
            below = id is not None and id.offset == self.view.start and id.epoch <= epoch
            return OffsetAndEpoch(self.view.start, id.epoch if below else 0)
        epochs = self.view.epochs
        end = epochs[place + 1][1] if place + 1 < len(epochs) else self.view.end
        return OffsetAndEpoch(end, epochs[place][0])

    def read(self, offset, max_bytes):
        place = bisect_right(self.view.bases, offset) - 1
        assert place >= 0, (offset, self.view.start)
        out, size = [], 0
        for batch in self.view.batches[place:]:
            size += len(batch.data)
            if out and size > max_bytes:
                break
            out.append(batch.data)
        return b"".join(out)

    def latest_snapshot_id(self):
        return max(self.snapshots, key=lambda id: (id.offset, id.epoch), default=None)

    def earliest_snapshot_id(self):
        return min(self.snapshots, key=lambda id: (id.offset, id.epoch), default=None)

    def snapshot_size(self, id):
        found = self.snapshots.get(id)
        return None if found is None else len(found)

    def read_snapshot(self, id, position, max_bytes):
        return self.snapshots[id][position : position + max_bytes]

    def begin_snapshot(self, id):
        self.part = (id, bytearray())

    def append_snapshot(self, id, data):
        assert self.part is not None and self.part[0] == id, (self.part, id)
        self.part[1].extend(data)
        return len(self.part[1])

    # ---- the shell's work

    def write(self, operation):
        self.view.apply(operation)
        self.pending.append(operation)

    @property
    def written(self):
        """How many operations there were, for `sync`."""
        return self.synced + len(self.pending)

    def sync(self, number):
        """Makes the operations below a number durable."""
        count = number - self.synced
        if count > 0:
            for operation in self.pending[:count]:
                self.durable.apply(operation)
            del self.pending[:count]
            self.synced = number

    def install_snapshot(self, id):
        """Completes the fetched snapshot and starts the log after it.

        Raises:
            SnapshotDamaged: It is not whole.
        """
        assert self.part is not None and self.part[0] == id, (self.part, id)
        data = bytes(self.part[1])
        self.part = None
        read_snapshot(data)
        self.snapshots[id] = data
        self.start_after(id)

    def start_after(self, id):
        """Starts the log after a snapshot."""
        self.write(("restart", id.offset))
        self.sync(self.written)
        self.snapshots = {each: data for each, data in self.snapshots.items() if each.offset >= id.offset}

    def add_snapshot(self, id, data, keep_old):
        """Adds a snapshot of the node's own; without `keep_old`, the log starts at its end afterwards."""
        self.snapshots[id] = data
        if not keep_old and id.offset <= self.view.end:
            self.sync(self.written)
            self.view.cut_below(id.offset)
            self.durable.cut_below(id.offset)
            self.snapshots = {each: data for each, data in self.snapshots.items() if each.offset >= id.offset}

    def holds(self, offset, epoch):
        """Whether the record at an offset, of this epoch, is durable, or covered by a snapshot."""
        if any(id.offset > offset for id in self.snapshots):
            return True
        batch = self.durable.at(offset)
        return batch is not None and batch.epoch == epoch

    # ---- crashes

    def crash(self, kept, torn, part_is_whole):
        """Loses unsynced data except the first `kept` operations, and half of the next batch with `torn`."""
        self.durable_end = self.durable.end
        self.view = self.durable.copy()
        rest = self.pending[kept:]
        for operation in self.pending[:kept]:
            self.view.apply(operation)
        if torn and rest and rest[0][0] == "append":
            batch = rest[0][1]
            self.view.apply(("append", batch._replace(data=batch.data[: len(batch.data) // 2])))
        self.synced += len(self.pending)
        self.pending = []
        # Renamed, but the log not cut yet.
        if self.part is not None and part_is_whole:
            self.snapshots[self.part[0]] = bytes(self.part[1])
        self.part = None

    def corrupt(self, place, bit):
        """Flips a bit of a durable batch; returns whether there is one."""
        if not self.view.batches:
            return False
        at = place % len(self.view.batches)
        batch = self.view.batches[at]
        data = bytearray(batch.data)
        # Not in the base offset or the length: the position in the list has those.
        at_bit = 16 * 8 + bit % ((len(data) - 16) * 8)
        data[at_bit // 8] ^= 1 << at_bit % 8
        self.view.batches[at] = batch._replace(data=bytes(data))
        return True

    def open(self):
        """Checks everything, as a start does; cuts a torn end off.

        Raises:
            DiskDamaged: Synced data is incomplete.
        """
        good = LogView()
        good.start = self.view.start
        for batch in self.view.batches:
            try:
                headers = batch_headers(batch.data)
                whole = len(headers) == 1 and headers[0].crc_ok is not False
                whole = whole and headers[0].leader_epoch == batch.epoch
            except CorruptBatch:
                whole = False
            if not whole:
                if batch.base < self.durable_end:
                    self.damaged = True
                    raise DiskDamaged(f"the batch at {batch.base} is damaged")
                break
            good.apply(("append", batch))
        self.view = good
        for id in list(self.snapshots):
            try:
                read_snapshot(self.snapshots[id])
            except SnapshotDamaged:
                del self.snapshots[id]
        self.durable = self.view.copy()
        latest = self.latest_snapshot_id()
        if latest is not None and latest != BOOTSTRAP_SNAPSHOT and self._is_behind(latest):
            self.start_after(latest)

    def _is_behind(self, id):
        last = self.view.batches[-1].epoch if self.view.batches else 0
        return id.epoch > last or (id.epoch == last and id.offset > self.view.end)
