"""Random lives of a few logs that stage their tails in a small mapped pool.

Each step changes a log and its model. The process is killed between two steps, or in the middle of one: then
the log has its state from before the step, and any part of the step's changes.
"""

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from tests.simulation.disk.crashes import scratch
from tests.simulation.staged.home import Home
from tests.simulation.staged.model import Model, Put
from tests.support.faults import failing
from tests.support.log_batches import NOW_MS, batch, headers

KAFKA_STORAGE_ERROR: Final = 56
STEPS: Final = 70
HOGS: Final = 17  # more than the smallest pool has chunks
CONFIGS: Final = {
    "small-0": {"segment_bytes": 4000, "index_interval_bytes": 200},
    "middle-0": {"segment_bytes": 60_000, "index_interval_bytes": 1000},
    "large-0": {"segment_bytes": 900_000, "index_interval_bytes": 4096},
}
# (step, weight)
WEIGHTS: Final = {
    "append": 14, "append_many": 8, "fill": 1, "append_large": 2, "repeat": 2, "read": 8, "search": 4, "truncate": 4, "roll": 2,
    "flush": 2, "rest": 2, "use_up": 1, "delete_records": 1, "recreate": 1, "full_disk": 1, "kill": 2, "stop": 1,
    "kill_within": 9,
}  # fmt: skip
# What a process may die of.
WITHIN: Final = (
    "append",
    "append_many",
    "fill",
    "fill",
    "append_large",
    "truncate",
    "roll",
    "flush",
    "rest",
    "recreate",
)
SIZES: Final = (3, 40, 200, 900, 3000, 9000)


@dataclass
class Partition:
    """A log and its model."""

    name: str
    log: PartitionLog
    model: Model
    flushed: int = 0


class Lives:
    """One simulation.

    Attributes:
        story: The steps, to see why a seed fails.
        restored: How many chunks starts have restored.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.story: list[str] = []
        self.count = 0
        self.restored = 0
        self._retired: list[PartitionLog] = []

    def run(self) -> None:
        """Runs the whole simulation.

        Raises:
            AssertionError: A log differs from its model; the story has the steps before.
        """
        try:
            with scratch() as root:
                self._run(root)
        except BaseException as problem:
            story = "\n".join(self.story[-40:])
            raise AssertionError(f"seed {self.seed}: {problem!r}\n{story}") from problem

    def _run(self, root: Path) -> None:
        self.home = Home(
            root,
            self.chance,
            self.chance.choice([256, 256, 512, 1024]) << 10,
            self.chance.choice([0, 0, 3000]),
        )
        self.partitions = {
            name: Partition(name, self.home.open(name, config, clean=True), Model())
            for name, config in CONFIGS.items()
        }
        for step in self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
            self._do(step)
        self._do("kill")
        self._do("stop")
        for each in self.partitions.values():
            each.log.close(sync=False)

    def _do(self, step: str) -> None:
        partition = self.chance.choice(list(self.partitions.values()))
        self.story.append(f"{step} {partition.name}")
        method: Callable[[Partition], None] = getattr(self, step)
        method(partition)
        for each in self.partitions.values():
            assert each.log.log_end_offset == each.model.end, f"after {step}: {each.log!r}"

    # ------------------------------------------------------------ appends

    def _batch(self, partition: Partition, size_bytes: int) -> Put:
        self.count += 1
        producers = partition.model.sequences
        # One that the log has forgotten may not begin anew: it would need another epoch.
        producer = self.chance.choice(
            [-1, *producers] if len(producers) > 2 else [-1, *producers, self.count]
        )
        sequence = producers.get(producer, 0) if producer >= 0 else -1
        records = self.chance.randrange(1, 4) if size_bytes < 1000 else 1
        values = [b"%d-%d-" % (self.count, i) + self.chance.randbytes(1) * size_bytes for i in range(records)]
        keys = [b"key%d" % self.chance.randrange(5) for _ in values] if self.chance.random() < 0.5 else None
        at = NOW_MS + self.count * 10 + self.chance.randrange(-40, 40)
        data = batch(values, keys=keys, timestamp=at, producer_id=producer, epoch=0, sequence=sequence)
        base = partition.model.end
        return Put(
            base,
            base + records - 1,
            data,
            tuple(at + i for i in range(records)),
            producer,
            sequence,
        )

    def _append(self, partition: Partition, size_bytes: int) -> None:
        room = CONFIGS[partition.name]["segment_bytes"] - 200
        put = self._batch(partition, size_bytes if size_bytes < room else 900)
        self._trying = put
        assert partition.log.append(put.data, 0, NOW_MS) == put.base
        partition.model.add(put)
        if put.producer >= 0 and self.chance.random() < 0.2:
            assert partition.log.append(put.data, 0, NOW_MS) == put.base, "a duplicate was appended"

    def append(self, partition: Partition) -> None:
        """A batch of any size that is staged."""
        self._append(partition, self.chance.choice(SIZES))

    def append_many(self, partition: Partition) -> None:
        """Batches that fill chunks."""
        size_bytes = self.chance.choice([2000, 7000, 30_000])
        for _ in range(self.chance.randrange(3, 12)):
            self._append(partition, size_bytes)

    def fill(self, partition: Partition) -> None:
        """So many batches that the tail continues in a chunk that was full."""
        for _ in range(18):
            self._append(partition, 4000)

    def append_large(self, partition: Partition) -> None:
        """A batch that no chunk takes, and one behind it."""
        self._append(partition, 70_000)
        self._append(partition, 100)

    def repeat(self, partition: Partition) -> None:
        """The last batch of a producer once more."""
        newest = {put.producer: put for put in partition.model.readable() if put.producer >= 0}
        for put in newest.values():
            assert partition.log.append(put.data, 0, NOW_MS) == put.base, "a duplicate was appended"

    def full_disk(self, partition: Partition) -> None:
        """No tail can be written out: the log fails when it needs that, and has all that it acknowledged."""
        with failing("pwritev", self.chance.choice([errno.ENOSPC, errno.EIO])):
            try:
                for _ in range(self.chance.randrange(1, 12)):
                    self._append(partition, self.chance.choice(SIZES))
            except LogError as error:
                assert error.code == KAFKA_STORAGE_ERROR and partition.log.failed
            partition.model.check_read(partition.log, partition.model.start, 1 << 14)
        self.kill(partition)

    def use_up(self, partition: Partition) -> None:
        """Other logs take the whole pool; they give it back in the end, or with the process."""
        hogs = [
            self.home.open(f"hog-{self.count}-{i}", {}, clean=True)
            for i in range(HOGS if self.home.pool_bytes == 256 << 10 else 4)
        ]
        for hog in hogs:
            while self.home.from_bytes and hog.size_bytes < self.home.from_bytes:
                hog.append(batch([b"x" * 1000]), 0, NOW_MS)
            hog.append(batch([b"x"]), 0, NOW_MS)
        for each in self.partitions.values():
            for _ in range(3):
                self._append(each, self.chance.choice(SIZES))
        if self.chance.random() < 0.5:
            self.kill(partition)
        for hog in hogs:
            hog.close(sync=False)

    # ------------------------------------------------------------ looking

    def read(self, partition: Partition) -> None:
        """From any offset."""
        model = partition.model
        offset = self.chance.randint(model.start, model.end)
        model.check_read(partition.log, offset, self.chance.choice([1, 500, 5000, 1 << 16]))

    def search(self, partition: Partition) -> None:
        """By a timestamp."""
        for _ in range(3):
            at = NOW_MS + self.chance.randint(-50, self.count * 10 + 60)
            partition.model.check_search(partition.log, at)

    # ------------------------------------------------------------ the log

    def truncate(self, partition: Partition) -> None:
        """Mostly a few batches, of which the last are staged."""
        model = partition.model
        keep = model.readable()
        if len(keep) < 2:
            return
        at = max(1, len(keep) - self.chance.randrange(1, 6)) if self.chance.random() < 0.8 else 1
        target = self.chance.randint(keep[at].base, keep[at].last)
        partition.log.truncate_to(target)
        model.truncate(target)
        partition.flushed = min(partition.flushed, model.end)
        model.take_sequences(partition.log)
        if self.chance.random() < 0.5:
            self._append(partition, 100)

    def delete_records(self, partition: Partition) -> None:
        """Up to any batch but the last."""
        model, log = partition.model, partition.log
        if len(model.readable()) < 2:
            return
        log.advance_high_watermark(model.end)
        target = self.chance.randint(model.start, model.puts[-1].base)
        assert log.delete_records(target) == target
        model.start = target
        log.apply_retention(NOW_MS)
        log.delete_expired_files(1 << 60)

    def roll(self, partition: Partition) -> None:
        """A new segment."""
        partition.log.roll()

    def flush(self, partition: Partition) -> None:
        """Recovery begins there."""
        assert partition.log.flush() == partition.model.end
        partition.flushed = partition.model.end

    def rest(self, partition: Partition) -> None:
        """All tails are written out."""
        self.home.rest()
        assert self.home.pool.taken_bytes == 0

    def recreate(self, partition: Partition) -> None:
        """The topic is deleted, and another of its name made, perhaps while the first one's tail is still there."""
        self.count += 1
        self._retired_path = self.home.root / f"{partition.name}.{self.count}-delete"
        Path(partition.log.directory).rename(self._retired_path)
        deleted = partition.log
        self._retired.append(deleted)
        if self.count % 2:
            deleted.mark_deleted(str(self._retired_path))
        partition.model = Model()
        partition.flushed = 0
        partition.log = self.home.open(partition.name, CONFIGS[partition.name], clean=True)
        for _ in range(self.chance.randrange(4)):
            self._append(partition, self.chance.choice(SIZES))
        deleted.mark_deleted(str(self._retired_path))

    # ------------------------------------------------------------ the process

    def _reopen(self, *, clean: bool) -> None:
        self._retired.clear()
        self.restored += self.home.restored
        for each in self.partitions.values():
            each.log = self.home.open(
                each.name,
                CONFIGS[each.name],
                clean=clean,
                start=each.model.start,
                recovery_point=self.chance.choice([0, each.flushed]),
            )
            # Restored batches are complete: recovery truncates nothing.
            assert each.log.stats()["truncated_bytes"] == 0

    def _check(self) -> None:
        for each in self.partitions.values():
            each.model.take_sequences(each.log)
            each.model.check_all(each.log)

    def stop(self, partition: Partition) -> None:
        """Ends and starts cleanly."""
        for log in (*self._retired, *(each.log for each in self.partitions.values())):
            log.close(sync=False)
        self.home.stop()
        self._reopen(clean=True)
        self._check()

    def kill(self, partition: Partition) -> None:
        """The process dies between two steps: everything is there."""
        self.home.kill()
        self._reopen(clean=False)
        self._check()

    def kill_within(self, partition: Partition) -> None:
        """The process dies in the middle of a step: everything from before is there."""
        step = self.chance.choice(WITHIN)
        before = partition.model.truncated_to(partition.model.end)
        moment = self.chance.randrange(1, 60 if step == "fill" else self.chance.choice([7, 40]))
        self.story.append(f"  {step}, dies before operation {moment}")
        appended: list[Put] = []
        with self.home.image_at(moment) as found:
            self._noting(partition, step, appended, found)
        if not found:
            self.kill(partition)
            return
        self.home.kill_back(found[0])
        after = partition.model
        for model in (before, after):
            model.start = min(model.start, model.end)
        self._reopen_within(partition, step, before, after, appended)
        self._check()

    def _noting(self, partition: Partition, step: str, appended: list[Put], found: list) -> None:
        """Runs the step; `appended` gets the batches that were acknowledged when the image was taken."""
        original = partition.model.add

        def add(put: Put) -> None:
            original(put)
            if not found:
                appended.append(put)

        partition.model.add = add  # type: ignore[method-assign]
        getattr(self, step)(partition)

    def _reopen_within(
        self, partition: Partition, step: str, before: Model, after: Model, appended: list[Put]
    ) -> None:
        """Opens the logs, and finds out which of the states that are allowed the log is in."""
        is_other = step == "recreate" and self._retired_path.exists()
        partition.model = after.truncated_to(0) if is_other else before
        partition.flushed = 0
        self._reopen(clean=False)
        end = partition.log.log_end_offset
        if step == "truncate":
            partition.model = self._cut(before, after, partition.log, end)
        elif step != "recreate" or is_other:
            least = appended[-1].last + 1 if appended else partition.model.end
            partition.model = after.truncated_to(end)
            assert partition.model.end == end >= least, f"{partition.log!r} should end at {least} or later"
        else:
            assert not appended, f"{partition.log!r} is the deleted topic's"

    def _cut(self, before: Model, after: Model, log: PartitionLog, end: int) -> Model:
        """A log in the middle of a truncation: any of the batches to be lost, or the one that followed."""
        last = headers(log.read(end - 1, 1, "log_end"))[0].data[17:] if end else b""
        for cut in (after.truncated_to(end), before.truncated_to(end)):
            if cut.end == end and (end == 0 or cut.puts[-1].body == last):
                common = [put for put in before.puts if put in set(after.puts)]
                assert end >= (common[-1].last + 1 if common else 0)
                return cut
        raise AssertionError(f"the log ends at {end}: {after.end} after, {before.end} before the truncation")
