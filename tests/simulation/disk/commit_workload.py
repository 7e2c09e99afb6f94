"""Logs in commit mode on a simulated disk: appends are acknowledged once the write-ahead log has them.

The steps that a broker runs on threads (engine/storage/durability.py) run one by one here, in the same order.
"""

import random
from pathlib import Path

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.disk.staged_tail import abandon_tails, write_rested
from bowstring._native.disk.tail_pool import TailMemory
from bowstring._native.log import durability as log_durability
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.log.wal_replay import replay, segment_numbers, supersede, survey
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from bowstring.engine.storage.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from bowstring.engine.storage.directory_wal import sync_logs
from bowstring.engine.storage.log_directory import LogDirectory
from tests.simulation.disk.checks import check_log
from tests.simulation.disk.crashes import Crashes, Image, scratch
from tests.simulation.disk.disk import Disk, put_tree
from tests.simulation.disk.medium import Outcome
from tests.simulation.disk.workload import (
    Batch,
    Facts,
    directory_with_small_tails,
    key_of,
    open_partition,
)
from tests.support.log_batches import CONFIG, NOW_MS, batch

TOPIC_ID = bytes(range(16))
SEGMENT_BYTES = 4 << 20
CONFIGS = {
    "t-0": CONFIG | {"segment_bytes": 3000, "index_interval_bytes": 200},
    "t-1": CONFIG | {"segment_bytes": 2 << 20},
}
FEW_SEGMENTS = 3
POOL_BYTES = 256 << 10
NEVER_AT_REST_MS = 1 << 40


class CommitBroker:
    """The storage of a broker in commit mode: its logs and its write-ahead log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs: dict[str, PartitionLog] = {}
        # Every batch is staged; a crash loses the tails, which are in plain memory.
        self.tails = TailMemory(POOL_BYTES, from_bytes=0, rest_ms=NEVER_AT_REST_MS)
        self.health = DirectoryHealth(str(root))
        self.health.stage_tails(None, self.tails)

    def start(self) -> None:
        """Opens all logs and replays the write-ahead log."""
        directory = directory_with_small_tails(self.root)
        directory.open(1)
        try:
            points, starts = (read_offsets(self.root / name) for name in (RECOVERY_POINTS, LOG_START_OFFSETS))
            for name, config in CONFIGS.items():
                self.logs[name] = open_partition(
                    self.root, name, config, points, starts, clean=directory.was_clean, health=self.health
                )
            by_id = {(TOPIC_ID, key_of(name)[1]): log for name, log in self.logs.items()}
            if directory.was_clean:
                last_frame = survey(self.root)
            else:
                found = replay([self.root], by_id)[self.root]
                missing = {key: each[3] for key, each in found["logs"].items() if each[3] is not None}
                assert not missing, f"acknowledged records are nowhere: {missing}"
                last_frame = found["last_frame"]
                if segment_numbers(self.root):
                    sync_logs(list(self.logs.values()))
                if found["superseded"] is not None:
                    supersede(self.root, *found["superseded"])
                self.write_checkpoints()
        finally:
            directory.close()
        self.wal = WriteAheadLog(self.root, last_frame=last_frame, segment_bytes=SEGMENT_BYTES, io="pwrite")
        numbers = segment_numbers(self.root)
        for number in numbers:
            self.wal.add_segment(number, make=False)
        self.next_number = max(numbers, default=-1) + 1
        for name, log in self.logs.items():
            log_durability.join(log, self.wal, TOPIC_ID, key_of(name)[1])
            log.advance_high_watermark(log.log_end_offset)

    def write_checkpoints(self) -> None:
        """Writes log starts, then recovery points."""
        logs = {key_of(name): log for name, log in self.logs.items()}
        points = {key: log.recovery_point for key, log in logs.items()}
        write_offsets(self.root / LOG_START_OFFSETS, {key: log.log_start_offset for key, log in logs.items()})
        write_offsets(self.root / RECOVERY_POINTS, points)

    def checkpoint(self) -> None:
        """Syncs partition files, and releases segments of the write-ahead log."""
        frame = self.wal.closed_frame
        sync_logs(list(self.logs.values()))
        self.write_checkpoints()
        self.wal.released(frame)

    def commit(self) -> None:
        """Writes all staged batches to the medium."""
        while self.wal.durable_frame < self.wal.staged_frame:
            stats = self.wal.stats()
            if stats["free_segments"] == 0:
                if stats["segments"] >= FEW_SEGMENTS:
                    self.checkpoint()
                else:
                    self.wal.add_segment(self.next_number)
                    self.next_number += 1
            self.wal.commit()
        for log in self.logs.values():
            log_durability.durable_to(log, log.log_end_offset)

    def stop(self, disk: Disk) -> None:
        """Stops cleanly."""
        self.commit()
        self.wal.stop()
        for log in self.logs.values():
            log_durability.join(log, None, bytes(16), 0)
            log.close(sync=False)
        disk.sync_all()
        self.write_checkpoints()
        self.wal.mark_clean()
        LogDirectory(self.root).mark_clean(1)


class CommitWorkload:
    """A workload of appends, group commits, checkpoints and restarts; notes record acknowledgements."""

    def __init__(self, disk: Disk, seed: int) -> None:
        self.disk = disk
        self.chance = random.Random(seed)
        self.broker = CommitBroker(disk.root)
        self.live: dict[str, list[Batch]] = {name: [] for name in CONFIGS}
        self.ever: dict[str, set[Batch]] = {name: set() for name in CONFIGS}
        self.sequences: dict[tuple[str, int], int] = {}
        self.count = 0
        self.staged_bytes = 0  # most that was taken of the pool

    def run(self, steps: list[str]) -> None:
        """Starts and runs the steps; notes in the trace record the promised batches."""
        before = {name: Facts() for name in CONFIGS}
        for step in ["start", *steps]:
            during = self.disk.note("facts")
            getattr(self, step)()
            after = {n: Facts(tuple(b for b in self.live[n] if b.last < log.high_watermark), log.high_watermark)
                     for n, log in self.broker.logs.items()}  # fmt: skip
            during.value = {n: before[n].both(after[n]) for n in CONFIGS}
            self.disk.note("facts", after)
            before = after

    def start(self) -> None:
        self.broker.start()

    def restart(self) -> None:
        self.broker.stop(self.disk)
        self.broker = CommitBroker(self.disk.root)
        self.broker.start()

    def put(self, name: str, size_bytes: int) -> None:
        log = self.broker.logs[name]
        self.count += 1
        records, producer = self.chance.randrange(1, 3), self.chance.choice([3, 4])
        sequence = self.sequences.get((name, producer), 0)
        values = [
            b"%d-%d-" % (self.count, i) + self.chance.randbytes(8) * (size_bytes // 8) for i in range(records)
        ]
        data = batch(values, timestamp=NOW_MS + self.count, producer_id=producer, epoch=0, sequence=sequence)
        end = log.log_end_offset
        made = Batch(end, end + records - 1, 0, data[17:])
        self.ever[name].add(made)
        assert log.append(data, 0, NOW_MS) == end
        self.live[name].append(made)
        self.sequences[name, producer] = sequence + records

    def append(self) -> None:
        self.put(self.chance.choice(list(CONFIGS)), self.chance.choice([8, 100, 700]))

    def append_much(self) -> None:
        """Fills write-ahead log segments."""
        self.put("t-1", 450_000)

    def commit(self) -> None:
        self.broker.commit()

    def append_some(self) -> None:
        """Fills chunks of staged tails."""
        for _ in range(4):
            self.put("t-1", 2400)
            self.staged_bytes = max(self.staged_bytes, self.broker.tails.taken_bytes)

    def checkpoint(self) -> None:
        self.broker.checkpoint()

    def rest(self) -> None:
        """Writes out the staged tails, as when the partitions are at rest."""
        assert write_rested(self.broker.tails, 0) == (0, 0)

    def kill(self) -> None:
        """The process dies: staged data that is not in the write-ahead log yet is lost."""
        marks = {name: log.high_watermark for name, log in self.broker.logs.items()}
        abandon_tails(self.broker.tails)
        self.broker = CommitBroker(self.disk.root)
        self.broker.start()
        for name, log in self.broker.logs.items():
            assert log.log_end_offset >= marks[name]
            self.live[name] = [batch for batch in self.live[name] if batch.last < log.log_end_offset]
            self.take_sequences(name)

    def roll(self) -> None:
        self.broker.logs[self.chance.choice(list(CONFIGS))].roll()

    def truncate(self) -> None:
        """Truncates the last few batches of a log, and records that in the write-ahead log."""
        name = self.chance.choice(list(CONFIGS))
        log, batches = self.broker.logs[name], self.live[name]
        if len(batches) > 3:
            target = batches[-self.chance.randrange(1, 3)].base
            self.live[name] = [b for b in batches if b.last < target]
            log.truncate_to(target)
            self.take_sequences(name)
            self.broker.write_checkpoints()
            self.broker.commit()

    def take_sequences(self, name: str) -> None:
        """Continues where the log's producers are."""
        known = {p[0]: p[2] + 1 for p in self.broker.logs[name].active_producers()}
        self.sequences |= {(name, p): known.get(p, 0) for n, p in self.sequences if n == name}


class CommitCrashes(Crashes):
    """Starts on images of a data directory in commit mode: acknowledged batches survive every outcome."""

    def look(self, image: Image, facts: dict[str, Facts], outcome: Outcome) -> None:
        """Starts with replay, and checks every partition."""
        key = hash((tuple(sorted(image.items())), tuple((n, f.acked) for n, f in sorted(facts.items()))))
        if key in self._looked:
            self.same += 1
            return
        self._looked.add(key)
        self.looked += 1
        with scratch() as root:
            put_tree(root, image)
            broker = CommitBroker(root)
            broker.start()
            for name, log in broker.logs.items():
                check_log(log, self.ever[name], facts[name].acked, 0)

    def __init__(self, ever: dict[str, set[Batch]]) -> None:
        super().__init__(ever)
        self._looked: set[int] = set()

    def during_recovery(
        self, image: Image, facts: dict[str, Facts], outcomes: list[Outcome], share: float
    ) -> None:
        """Simulates a second power loss during the start after the first one."""
        with scratch() as root:
            put_tree(root, image)
            disk = Disk(root)
            disk.note("facts", facts)
            with disk.watched():
                CommitBroker(root).start()
            self.at_every_moment(disk, outcomes, share=share)
