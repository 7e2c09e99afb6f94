"""A log against a list in Python, through any sequence of what can be done to both: a hypothesis state machine."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bowstring._native.log.partition_log import LogError
from tests.support.log_batches import NOW_MS, batch, crash, headers, open_log

CONFIG = {"segment_bytes": 700, "index_interval_bytes": 150, "segment_ms": 50_000}
PRODUCERS = st.integers(0, 2)


class LogMachine(RuleBasedStateMachine):
    """`batches` is the whole log: (base offset, last offset, epoch, largest timestamp, value of each record)."""

    @initialize()
    def start(self):
        self.directory = self.start_directory()
        self.batches = []
        self.start_offset = self.end_offset = self.committed = self.flushed = 0
        self.epoch = 0
        self.sequences = {}
        self.log = self.opened(clean=True)

    def start_directory(self):
        return Path(tempfile.mkdtemp(prefix="log-model-"))

    def opened(self, *, clean):
        return open_log(
            self.directory, clean=clean, start=self.start_offset, recovery_point=self.flushed, **CONFIG
        )

    def killed(self):
        """The process dies: data that is not in the files is lost."""
        crash(self.log)

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close(sync=False)
            shutil.rmtree(self.directory)

    # ------------------------------------------------------------ appends

    def appended(self, base, values, timestamp):
        assert base == self.end_offset
        last = base + len(values) - 1
        self.batches.append((base, last, self.epoch, timestamp + len(values) - 1, tuple(values)))
        self.end_offset = last + 1

    @rule(values=st.lists(st.binary(max_size=40), min_size=1, max_size=5), at=st.integers(0, 200_000))
    def append(self, values, at):
        base = self.log.append(batch(values, timestamp=NOW_MS + at), self.epoch, NOW_MS)
        self.appended(base, values, NOW_MS + at)

    @rule(
        producer=PRODUCERS, values=st.lists(st.binary(max_size=9), min_size=1, max_size=3), gap=st.booleans()
    )
    def append_idempotent(self, producer, values, gap):
        epoch, sequence = self.sequences.get(producer, (0, 0))
        known = any(p[0] == producer for p in self.log.active_producers())
        data = batch(values, producer_id=producer, epoch=epoch, sequence=sequence + gap)
        if gap and known:
            try:
                self.log.append(data, self.epoch, NOW_MS)
            except LogError as error:
                assert error.code == 45
                return
            raise AssertionError("a gap was taken")
        base = self.log.append(data, self.epoch, NOW_MS)
        self.appended(base, values, NOW_MS)
        self.sequences[producer] = (epoch, sequence + gap + len(values))
        assert self.log.append(data, self.epoch, NOW_MS) == base  # a duplicate

    @rule(producer=PRODUCERS)
    def bump_producer_epoch(self, producer):
        if producer in self.sequences:
            self.sequences[producer] = (self.sequences[producer][0] + 1, 0)

    @rule()
    def new_epoch(self):
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.end_offset)

    # ------------------------------------------------------------ operations that shorten it

    def cut_epochs_and_producers(self):
        """Producers without a remaining batch may begin anywhere; the others continue where they are now."""
        known = {p[0]: (p[1], p[2] + 1) for p in self.log.active_producers()}
        self.sequences = {p: known.get(p, (e, s)) for p, (e, s) in self.sequences.items()}

    @precondition(lambda self: self.end_offset > 0)
    @rule(data=st.data())
    def truncate(self, data):
        target = data.draw(st.integers(self.start_offset, self.end_offset))
        self.log.truncate_to(target)
        if target < self.end_offset:
            target = min([target, *(b[0] for b in self.batches if b[0] < target <= b[1])])
            self.batches = [b for b in self.batches if b[1] < target]
            self.end_offset = target
            self.start_offset = min(self.start_offset, target)
            self.committed = min(self.committed, target)
            self.flushed = min(self.flushed, target)
            self.epoch = max(self.epoch, self.log.leader_epoch)
            self.cut_epochs_and_producers()

    @rule(data=st.data())
    def delete_records(self, data):
        target = data.draw(st.integers(0, self.committed))
        self.start_offset = max(self.start_offset, target)
        assert self.log.delete_records(target) == self.start_offset
        self.log.apply_retention(NOW_MS)
        self.log.delete_expired_files(1 << 60)

    # ------------------------------------------------------------ what leaves it as it is

    @rule(data=st.data())
    def commit(self, data):
        self.committed = max(self.committed, data.draw(st.integers(self.start_offset, self.end_offset)))
        self.log.advance_high_watermark(self.committed)

    @rule(active=st.booleans())
    def flush(self, active):
        point = self.log.flush(include_active=active)
        assert point == self.end_offset if active else point <= self.end_offset
        self.flushed = point

    @rule()
    def roll(self):
        self.log.roll()

    @rule(clean=st.booleans())
    def reopen(self, clean):
        if clean:
            self.log.close(sync=False)
        else:
            self.killed()
        self.log = self.opened(clean=clean)
        self.log.advance_high_watermark(self.committed)
        if not clean:  # a log end that truncation put inside a batch is not written down anywhere
            self.end_offset = self.log.log_end_offset
            last = self.batches[-1][1] + 1 if self.batches else 0
            assert last <= self.end_offset or self.end_offset == self.start_offset
            self.committed = min(self.committed, self.end_offset)
        else:
            self.end_offset = self.log.log_end_offset
            self.committed = min(self.committed, self.end_offset)
        self.cut_epochs_and_producers()

    # ------------------------------------------------------------ looking at it

    def readable(self):
        return [b for b in self.batches if b[1] >= self.start_offset]

    @rule(data=st.data(), max_bytes=st.integers(1, 2000))
    def read(self, data, max_bytes):
        offset = data.draw(st.integers(self.start_offset, self.end_offset))
        found = headers(self.log.read(offset, max_bytes, "log_end"))
        expected = [b for b in self.readable() if b[1] >= offset]
        assert bool(found) == bool(expected)
        seen = [(h.base_offset, h.last_offset, h.leader_epoch, h.max_timestamp) for h in found]
        assert seen == [b[:4] for b in expected[: len(found)]]

    @rule(at=st.integers(0, 210_000))
    def by_timestamp(self, at):
        wanted = NOW_MS + at
        found = self.log.offset_for_timestamp(wanted)
        records = [
            (largest - (last - offset), offset, epoch)
            for base, last, epoch, largest, _ in self.readable()
            for offset in range(max(base, self.start_offset), last + 1)
        ]
        assert found == next((r for r in records if r[0] >= wanted), None)

    @invariant()
    def offsets_agree(self):
        if hasattr(self, "log"):
            log = self.log
            assert (log.log_start_offset, log.log_end_offset) == (self.start_offset, self.end_offset)
            assert log.high_watermark == max(self.committed, self.start_offset)
            assert sum(size for _, size, _ in log.segments()) == log.size_bytes
