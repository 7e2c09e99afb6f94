"""Logs in os mode whose last bytes are staged in a mapped file, on a simulated disk.

A kill keeps what the process had stored in its mapping, at every moment between two stores; a power cut
leaves any mix of the mapping's pages, and another boot id.
"""

from dataclasses import replace
from pathlib import Path

from bowstring._native.disk.tail_pool import restore
from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.storage.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    sync_directory,
)
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.staged_tails import TAILS_FILE
from tests.simulation.disk.crashes import Crashes, Image, scratch
from tests.simulation.disk.disk import Disk, tree_of
from tests.simulation.disk.medium import KILLED, Outcome
from tests.simulation.disk.pool_images import placed, put_staged
from tests.simulation.disk.workload import CONFIGS, WEIGHTS, Batch, Facts, Partition, Workload, open_partition
from tests.support.log_batches import CONFIG, batch

POOL_BYTES = 256 << 10
# Stages the first batch too, and one after a pause of the machine.
NEVER_AT_REST_MS = 1 << 40
# t-1 fills chunks of 16 KiB; the others roll before.
STAGED_CONFIGS = CONFIGS | {
    "t-1": CONFIG | {"segment_bytes": 300_000, "index_interval_bytes": 2000, "file_delete_delay_ms": 1000}
}


def staged_disk(root: Path) -> Disk:
    """A disk that observes the pool's stores."""
    return Disk(root, mapped=[TAILS_FILE])


class StagedWorkload(Workload):
    """A workload whose process is killed now and then, and whose topics are deleted and created again."""

    configs = STAGED_CONFIGS

    def __init__(self, disk: Disk, seed: int) -> None:
        super().__init__(disk, seed)
        self.retired: list[PartitionLog] = []  # of deleted topics: their files are not unlinked yet

    def start(self) -> None:
        root = self.disk.root
        self.directory = LogDirectory(root)
        tails = self.directory.tails
        tails.pool_bytes, tails.from_bytes, tails.rest_ms = POOL_BYTES, 0, NEVER_AT_REST_MS
        tails.in_background = False
        self.directory.open(1)
        points, starts = read_offsets(root / RECOVERY_POINTS), read_offsets(root / LOG_START_OFFSETS)
        for name in self.configs:
            self.adopt(name, self.opened(name, points, starts))

    def opened(self, name: str, points: dict, starts: dict) -> PartitionLog:
        return open_partition(
            self.disk.root,
            name,
            self.configs[name],
            points,
            starts,
            clean=self.directory.was_clean,
            health=self.directory.health,
        )

    def run(self, steps: list[tuple[str, str]]) -> None:
        """As the base's; also notes what a killed process leaves: exactly what it had appended."""
        before = {name: Facts(may=frozenset()) for name in self.configs}
        for step, name in [("start", ""), *steps]:
            during = self.disk.note("facts")
            known = {n: set(ever) for n, ever in self.ever.items()}
            self.step(step, name)
            after = {n: replace(p.facts(), may=frozenset(p.live)) for n, p in self.partitions.items()}
            during.value = {
                n: replace(
                    before[n].both(after[n]),
                    may=frozenset((*before[n].acked, *after[n].acked, *(self.ever[n] - known[n]))),
                )
                for n in self.configs
            }
            self.disk.note("facts", after)
            before = after

    # ------------------------------------------------------------ the broker's life

    def restart(self) -> None:
        for partition in self.partitions.values():
            partition.log.close(sync=False)
        self.disk.sync_all()
        self.checkpoint()
        self.directory.mark_clean(1)
        self.directory.close()
        self.start()

    def kill(self) -> None:
        """The process dies and starts again: everything acknowledged is there, in its place."""
        ends = {name: each.log.log_end_offset for name, each in self.partitions.items()}
        self.directory.tails.abandon()
        self.directory.close()
        self.start()
        assert {name: each.log.log_end_offset for name, each in self.partitions.items()} == ends

    def rest(self) -> None:
        self.directory.tails.rest()

    # ------------------------------------------------------------ a partition

    def append_much(self, partition: Partition) -> None:
        """Appends batches of some kilobytes, which fill chunks."""
        for _ in range(self.chance.randrange(2, 5)):
            self.append_sized(partition, self.chance.choice([1500, 3000, 5000]))

    def fill_chunks(self, partition: Partition) -> None:
        """Fills so many that the tail keeps its chunk: full twice in a second, it requests no larger one."""
        for _ in range(18):
            self.append_sized(partition, 4000)

    def append_large(self, partition: Partition) -> None:
        """Appends a batch that is larger than a chunk."""
        self.append_sized(partition, 66_000)

    def append_sized(self, partition: Partition, size_bytes: int) -> None:
        if size_bytes > self.configs[partition.name]["segment_bytes"] - 200:
            size_bytes = 1000
        self.count += 1
        producer = self.chance.choice([5, 6])
        sequence = partition.sequences.get(producer, 0)
        value = b"%d-" % self.count + self.chance.randbytes(16) * (size_bytes // 16)
        keys = [b"key%d" % self.chance.randrange(3)]
        data = batch([value], keys=keys, timestamp=self.timestamp(), producer_id=producer, epoch=0, sequence=sequence)  # fmt: skip
        assert self.put(partition, data, 1)
        partition.sequences[producer] = sequence + 1

    def delete_records(self, partition: Partition) -> None:
        """Checkpoints the log start: after a kill, the epochs of deleted records are gone."""
        super().delete_records(partition)
        self.checkpoint()

    def recreate(self, partition: Partition) -> None:
        """Deletes the topic and creates another one of its name while the first has a tail."""
        root, name = self.disk.root, partition.name
        self.count += 1
        retired = root / f"{name}.{self.count}-delete"
        (root / name).rename(retired)
        sync_directory(root)
        partition.log.mark_deleted(str(retired))
        del self.partitions[name]
        self.checkpoint()
        self.retired.append(partition.log)
        self.partitions[name] = Partition(name, self.opened(name, {}, {}), ever=self.ever[name])


class StagedCrashes(Crashes):
    """Starts on images of a data directory with a pool. A killed process loses nothing acknowledged."""

    configs = STAGED_CONFIGS

    def adapt(self, image: Image, disk: Disk, inodes: dict[int, str]) -> Image:
        """The pool names files by their places in the image."""
        paths = {real: inodes[made] for real, made in disk.real_inodes.items() if made in inodes}
        return placed(image, paths)

    def check_opened(self, log: PartitionLog, outcome: Outcome) -> None:
        """Restored batches are complete: recovery truncates nothing."""
        assert outcome is not KILLED or log.stats()["truncated_bytes"] == 0

    def look(self, image: Image, facts: dict[str, Facts], outcome: Outcome) -> None:
        """Restores the staged batches, and checks every partition."""
        with scratch() as root:
            put_staged(root, image, same_boot=outcome is KILLED)
            restored = restore(root / TAILS_FILE, root)
            assert outcome is KILLED or restored == 0, "after a power cut nothing tells what the mapping has"
            self.restored += restored
            image = tree_of(root)
        image.pop(TAILS_FILE, None)
        super().look(image, facts, outcome)

    def __init__(self, ever: dict[str, set[Batch]]) -> None:
        super().__init__(ever)
        self.restored = 0


# ---------------------------------------------------------------- steps

SCRIPT = [
    *[("append", "t-0")] * 3, ("append_idempotent", "t-0"), ("append_much", "t-1"), ("append_transaction", "t-2"),
    ("append_much", "t-1"), ("append_transaction", "t-2"), ("append_idempotent", "t-0"), ("roll", "t-0"),
    ("append_idempotent", "t-0"), ("rest", ""), ("append_idempotent", "t-0"), ("kill", ""), *[("append_much", "t-1")] * 3,
    ("append_large", "t-1"), ("append_idempotent", "t-1"), ("truncate", "t-1"), ("append_idempotent", "t-1"),
    ("new_epoch", "t-0"), ("append_idempotent", "t-0"), ("flush", "t-1"), ("append_much", "t-1"), ("checkpoint", ""),
    ("kill", ""), ("append_transaction", "t-2"), ("fill_chunks", "t-1"), ("append_transaction", "t-2"), ("recreate", "t-0"),
    ("append", "t-0"),
    ("append_idempotent", "t-0"), *[("append_much", "t-1")] * 2, ("recreate", "t-1"), ("append_much", "t-1"),
    ("restart", ""), *[("append_much", "t-1")] * 3, ("truncate", "t-1"), ("append_transaction", "t-2"),
    ("append_idempotent", "t-1"), ("append", "t-0"), ("kill", ""), ("append", "t-0"), ("append_idempotent", "t-1"),
]  # fmt: skip

RANDOM = WEIGHTS | {
    "append_much": 12,
    "append_large": 2,
    "fill_chunks": 2,
    "recreate": 2,
    "rest": 2,
    "kill": 3,
}
