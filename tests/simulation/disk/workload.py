"""A workload of logs on a simulated disk, with their promises at each moment.

A workload is a data directory with three partitions. Every step is a call that a broker makes; before and
after it, the trace gets a note with the facts: the acknowledged batches, the log's durable end, and its
start. During a step, only facts that hold both before and after it are promised.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bowstring._native.disk.directory_health import DirectoryHealth
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    sync_directory,
    write_offsets,
)
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from tests.simulation.disk.disk import Disk
from tests.support.log_batches import CONFIG, NOW_MS, TRANSACTIONAL, batch, marker

SMALL = {"segment_bytes": 2600, "index_interval_bytes": 200, "file_delete_delay_ms": 1000}
CONFIGS = {
    "t-0": CONFIG | SMALL,
    "t-1": CONFIG | SMALL | {"segment_bytes": 5000, "flush_messages": 7},
    "t-2": CONFIG | SMALL | {"retention_bytes": 4000},
}
PRODUCERS = {"t-0": (5, 6), "t-1": (7,), "t-2": (8,)}
TRANSACTIONAL_PRODUCER = 50
POOL_BYTES = 256 << 10


@dataclass(frozen=True)
class Batch:
    """An appended batch: its offset, and all fields that the log does not assign."""

    base: int
    last: int
    epoch: int
    body: bytes  # from the CRC on


@dataclass(frozen=True)
class Facts:
    """The promises of a partition at one moment.

    Attributes:
        may: The batches that it may have when the process is killed; None: all that were ever appended.
    """

    acked: tuple[Batch, ...] = ()
    durable_end: int = 0
    start: int = 0
    may: frozenset[Batch] | None = None

    def both(self, other: "Facts") -> "Facts":
        """Returns the promises that hold both before and after a step."""
        there = set(other.acked)
        return Facts(
            tuple(b for b in self.acked if b in there),
            min(self.durable_end, other.durable_end),
            max(self.start, other.start),
        )


@dataclass
class Partition:
    """A log and its model."""

    name: str
    log: PartitionLog
    live: list[Batch] = field(default_factory=list)
    ever: set[Batch] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)
    epoch: int = 0
    open_transaction: bool = False

    def facts(self) -> Facts:
        """Returns the present promises."""
        return Facts(tuple(self.live), self.log.recovery_point, self.log.log_start_offset)


class Workload:
    """A data directory with partitions, changed step by step.

    Args:
        failing: Operations may fail: after a step that ends with an error the next one runs.
    """

    configs = CONFIGS

    def __init__(self, disk: Disk, seed: int, *, failing: bool = False) -> None:
        self.disk = disk
        self.chance = random.Random(seed)
        self.failing = failing
        self.now_ms = NOW_MS
        self.partitions: dict[str, Partition] = {}
        self.ever: dict[str, set[Batch]] = {
            name: set() for name in self.configs
        }  # all batches ever appended to a log
        self.count = 0

    # ------------------------------------------------------------ running

    def run(self, steps: list[tuple[str, str]]) -> None:
        """Starts and runs the named steps (step, partition); an error ends the run unless `failing` is set."""
        before = {name: Facts() for name in CONFIGS}
        for step, name in [("start", ""), *steps]:
            during = self.disk.note("facts")
            try:
                self.step(step, name)
            except (LogError, OSError, DataDirectoryError):
                if not self.failing:
                    raise
                if step in ("start", "restart"):
                    during.value = before
                    return
            after = {n: p.facts() for n, p in self.partitions.items()}
            during.value = {n: before[n].both(after[n]) for n in CONFIGS}
            self.disk.note("facts", after)
            before = after

    def step(self, step: str, name: str) -> None:
        """Runs one step."""
        method: Callable[..., None] = getattr(self, step)
        if name:
            method(self.partitions[name])
        else:
            method()

    # ------------------------------------------------------------ the broker's life

    def start(self) -> None:
        """Opens the data directory and its logs like a broker."""
        root = self.disk.root
        directory = directory_with_small_tails(root)
        directory.open(1)
        try:
            points, starts = read_offsets(root / RECOVERY_POINTS), read_offsets(root / LOG_START_OFFSETS)
            for name, config in CONFIGS.items():
                self.adopt(
                    name, open_partition(root, name, config, points, starts, clean=directory.was_clean)
                )
        finally:
            directory.close()

    def adopt(self, name: str, log: PartitionLog) -> None:
        """Continues with the log of a partition that was opened anew."""
        log.advance_high_watermark(log.log_end_offset)
        old = self.partitions.get(name)
        made = self.partitions[name] = Partition(name, log, ever=self.ever[name])
        if old is not None:
            made.live, made.sequences, made.epoch = old.live, old.sequences, old.epoch

    def restart(self) -> None:
        """Stops cleanly and starts again."""
        for partition in self.partitions.values():
            partition.log.close(sync=False)
        self.disk.sync_all()
        if any(p.log.failed for p in self.partitions.values()):
            raise OSError("no clean stop with a failed log")
        self.checkpoint()
        directory = LogDirectory(self.disk.root)
        directory.mark_clean(1)
        self.start()

    def checkpoint(self) -> None:
        """Writes all three offset checkpoints, in the broker's order."""
        logs = {key_of(p.name): p.log for p in self.partitions.values()}
        points = {key: log.recovery_point for key, log in logs.items()}
        starts = {key: log.log_start_offset for key, log in logs.items()}
        marks = {key: log.high_watermark for key, log in logs.items()}
        for name, offsets in (
            (LOG_START_OFFSETS, starts),
            (RECOVERY_POINTS, points),
            (HIGH_WATERMARKS, marks),
        ):
            write_offsets(self.disk.root / name, offsets)

    # ------------------------------------------------------------ records

    def values(self) -> list[bytes]:
        self.count += 1
        size = self.chance.choice([3, 40, 150, 700])
        return [b"%d-%d-" % (self.count, i) + b"x" * size for i in range(self.chance.randrange(1, 4))]

    def timestamp(self) -> int:
        return NOW_MS + self.count * 10 + self.chance.randrange(-30, 30)

    def put(self, partition: Partition, data: bytes, records: int) -> bool:
        """Appends a batch; returns whether it is new (not a duplicate)."""
        end = partition.log.log_end_offset
        made = Batch(end, end + records - 1, partition.epoch, data[17:])
        partition.ever.add(made)
        base = partition.log.append(data, partition.epoch, self.now_ms)
        partition.log.advance_high_watermark(partition.log.log_end_offset)
        if base == end:
            partition.live.append(made)
        return base == end

    def append(self, partition: Partition) -> None:
        values = self.values()
        self.put(partition, batch(values, timestamp=self.timestamp()), len(values))

    def append_idempotent(self, partition: Partition) -> None:
        producer = self.chance.choice(PRODUCERS[partition.name])
        values, sequence = self.values(), partition.sequences.get(producer, 0)
        data = batch(values, timestamp=self.timestamp(), producer_id=producer, epoch=0, sequence=sequence)
        assert self.put(partition, data, len(values))
        partition.sequences[producer] = sequence + len(values)
        if self.chance.random() < 0.3:
            assert not self.put(partition, data, len(values)), "a duplicate was appended"

    def append_transaction(self, partition: Partition) -> None:
        """Appends a batch of a transaction; every second call ends it."""
        producer = TRANSACTIONAL_PRODUCER
        values, sequence = self.values(), partition.sequences.get(producer, 0)
        data = batch(
            values, timestamp=self.timestamp(), producer_id=producer, epoch=0, sequence=sequence,
            attributes=TRANSACTIONAL,
        )  # fmt: skip
        assert self.put(partition, data, len(values))
        partition.sequences[producer] = sequence + len(values)
        partition.open_transaction = True
        if self.chance.random() < 0.6:
            data = marker(producer, 0, abort=self.chance.random() < 0.7, timestamp=NOW_MS - 10**6)
            assert self.put(partition, data, 1)
            partition.open_transaction = False

    def new_epoch(self, partition: Partition) -> None:
        partition.epoch += 1
        partition.log.assign_epoch(partition.epoch, partition.log.log_end_offset)

    # ------------------------------------------------------------ housekeeping

    def roll(self, partition: Partition) -> None:
        partition.log.roll()

    def flush(self, partition: Partition) -> None:
        partition.log.flush()

    def flush_rolled(self, partition: Partition) -> None:
        partition.log.flush(include_active=False)

    def retain(self, partition: Partition) -> None:
        partition.log.apply_retention(self.now_ms)

    def delete_records(self, partition: Partition) -> None:
        low, high = partition.log.log_start_offset, partition.log.high_watermark
        partition.log.delete_records(low + (high - low) // 3)
        partition.log.apply_retention(self.now_ms)

    def unlink(self, partition: Partition) -> None:
        self.now_ms += 2000
        partition.log.delete_expired_files(self.now_ms + 10**12)

    def truncate(self, partition: Partition) -> None:
        """Truncates the last few batches, then checkpoints recovery points, as every truncation must."""
        log = partition.log
        keep = [b for b in partition.live if b.last >= log.log_start_offset]
        target = keep[-self.chance.randrange(1, 6)].base if len(keep) > 6 else log.log_end_offset
        partition.live = [b for b in partition.live if b.last < target]
        log.truncate_to(target)
        known = {p[0]: p[2] + 1 for p in log.active_producers()}
        partition.sequences = {p: known.get(p, s) for p, s in partition.sequences.items()}
        partition.open_transaction = any(p[5] >= 0 for p in log.active_producers())
        self.checkpoint()


def key_of(name: str) -> tuple[str, int]:
    """Returns a partition's key in checkpoints, from its directory."""
    topic, _, index = name.rpartition("-")
    return topic, int(index)


def directory_with_small_tails(root: Path) -> LogDirectory:
    """Returns a data directory whose staged tails take little room. The logs here are too small to stage their tails,
    and mapping the usual 16 MiB costs more than the rest of a start.
    """
    directory = LogDirectory(root)
    directory.tails.pool_bytes = POOL_BYTES
    directory.tails.in_background = False
    return directory


def open_partition(
    root: Path,
    name: str,
    config: dict[str, int],
    points: dict[tuple[str, int], int],
    starts: dict[tuple[str, int], int],
    *,
    clean: bool,
    health: DirectoryHealth | None = None,
) -> PartitionLog:
    """Opens a partition like a start of the broker, or creates it."""
    path = root / name
    if not path.exists():
        path.mkdir()
        sync_directory(root)
        return PartitionLog(str(path), config, recovery_point=0, clean_shutdown=True, health=health)
    return PartitionLog(
        str(path),
        config,
        recovery_point=points.get(key_of(name), 0),
        clean_shutdown=clean,
        log_start_offset=starts.get(key_of(name), 0),
        health=health,
    )


# ---------------------------------------------------------------- steps

SCRIPT = [
    *[("append", "t-0")] * 3, ("append_idempotent", "t-0"), ("append_idempotent", "t-1"), ("append", "t-1"),
    *[("append_transaction", "t-2")] * 4, ("flush", "t-0"), *[("append_idempotent", "t-0")] * 6,
    ("new_epoch", "t-0"), ("append", "t-0"), ("roll", "t-0"), ("append", "t-0"), ("flush_rolled", "t-0"),
    ("checkpoint", ""), ("append_idempotent", "t-0"), *[("append_idempotent", "t-1")] * 6, ("flush", "t-2"),
    *[("append_transaction", "t-2")] * 8, ("append", "t-2"), ("retain", "t-2"), ("checkpoint", ""),
    ("truncate", "t-0"), ("new_epoch", "t-0"), *[("append_idempotent", "t-0")] * 3, ("unlink", "t-0"),
    ("delete_records", "t-0"), ("append", "t-0"), ("unlink", "t-0"), ("unlink", "t-2"), ("restart", ""),
    ("append_idempotent", "t-0"), ("append_transaction", "t-2"), ("append_idempotent", "t-1"), ("flush", "t-0"),
    ("append", "t-0"), ("delete_records", "t-2"), ("checkpoint", ""), ("append", "t-2"), ("append", "t-1"),
]  # fmt: skip

WEIGHTS = {
    "append": 12, "append_idempotent": 16, "append_transaction": 8, "new_epoch": 2, "roll": 3, "flush": 4,
    "flush_rolled": 3, "retain": 3, "delete_records": 2, "unlink": 2, "truncate": 2, "checkpoint": 3, "restart": 1,
}  # fmt: skip
OF_THE_BROKER = ("checkpoint", "restart", "kill", "rest")


def random_steps(seed: int, count: int, weights: dict[str, int] = WEIGHTS) -> list[tuple[str, str]]:
    """Returns a workload of random steps."""
    chance = random.Random(seed)
    steps = chance.choices(list(weights), list(weights.values()), k=count)
    return [(step, "" if step in OF_THE_BROKER else chance.choice(list(CONFIGS))) for step in steps]


def facts_along(trace: list[object]) -> Iterator[dict[str, Facts]]:
    """Returns for each event of a trace the promises just before it."""
    facts = {name: Facts() for name in CONFIGS}
    for event in trace:
        yield facts
        if getattr(event, "kind", None) == "facts":
            facts = event.value  # type: ignore[attr-defined]
