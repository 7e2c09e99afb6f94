"""Power loss at every moment of a trace, with any outcome: starts on the result, and checks every promise."""

import hashlib
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine.storage.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    PartitionKey,
    read_offsets,
)
from tests.simulation.disk.checks import check_clean_restart, check_log
from tests.simulation.disk.disk import Disk, put_tree
from tests.simulation.disk.medium import KILLED, Note, Outcome
from tests.simulation.disk.workload import (
    CONFIGS,
    Batch,
    Facts,
    directory_with_small_tails,
    facts_along,
    key_of,
    open_partition,
)

Image = dict[str, bytes | None]


@contextmanager
def scratch() -> Iterator[Path]:
    """Creates an empty directory, in memory if there is such a file system."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="bowstring-disk-", dir=memory if memory.is_dir() else None))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Crashes:
    """Checks images of a data directory; skips images that it has checked with the same promises."""

    configs = CONFIGS

    def __init__(self, ever: dict[str, set[Batch]]) -> None:
        self.ever = ever
        self.looked = 0  # checked partitions
        self.same = 0
        self._done: set[bytes] = set()
        self._broker: dict[tuple, tuple[bool, dict[PartitionKey, int], dict[PartitionKey, int]]] = {}

    def at_every_moment(
        self, disk: Disk, outcomes: Iterable[Outcome], *, share: float = 1.0, **options: bool
    ) -> None:
        """Checks every outcome, or a share of them, at every moment of a trace whose notes record the promised batches."""
        medium = disk.medium(**options)
        chance = random.Random(len(disk.trace))
        outcomes = list(outcomes)
        for moment, (event, facts) in enumerate(
            zip([*disk.trace, None], facts_along([*disk.trace, None]), strict=True)
        ):
            if isinstance(event, Note):
                continue
            for outcome in outcomes if chance.random() < share else ():
                image = self.adapt(medium.image(outcome, moment, event), disk, medium.inodes(outcome, moment))
                try:
                    self.look(image, facts, outcome)
                except Exception as problem:
                    raise AssertionError(
                        f"power loss at moment {moment} of {len(disk.trace)}, before {event!r:.200}; outcome {outcome}"
                    ) from problem
            if event is not None:
                medium.apply(event)

    def adapt(self, image: Image, disk: Disk, inodes: dict[int, str]) -> Image:
        """Returns what `look` takes for an image; `inodes` says which simulated inode its files had."""
        return image

    def check_opened(self, log: PartitionLog, outcome: Outcome) -> None:
        """Looks at a log that was just opened."""

    def look(self, image: Image, facts: dict[str, Facts], outcome: Outcome) -> None:
        """Starts on an image, and checks every partition."""
        clean, points, starts = self.start_broker(image)
        for name in self.configs:
            fact = facts[name]
            owed = [
                b
                for b in fact.acked
                if b.last >= fact.start and (outcome is KILLED or b.last < fact.durable_end)
            ]
            may = self.ever[name] if fact.may is None or outcome is not KILLED else fact.may
            unordered = outcome.names == "any"
            files = {path: content for path, content in image.items() if path.split("/")[0] == name}
            key = (
                name,
                clean,
                points.get(key_of(name)),
                starts.get(key_of(name)),
                unordered,
                fact.start,
                *(b.base for b in owed),
                hash(may) if isinstance(may, frozenset) else None,
            )
            digest = hashlib.blake2b(repr(key).encode())
            for path, content in sorted(files.items()):
                digest.update(
                    f"{path} {-1 if content is None else len(content)}\n".encode() + (content or b"")
                )
            if digest.digest() in self._done:
                self.same += 1
                continue
            self._done.add(digest.digest())
            self.looked += 1
            with scratch() as root:
                put_tree(root, files)
                log = open_partition(root, name, self.configs[name], points, starts, clean=clean)
                self.check_opened(log, outcome)
                check_log(log, may, owed, fact.start, may_lack_front=unordered)
                check_clean_restart(log, self.configs[name])

    def start_broker(self, image: Image) -> tuple[bool, dict[PartitionKey, int], dict[PartitionKey, int]]:
        """Returns (whether the stop was clean, recovery points, log starts) as a broker reads them."""
        top = tuple((path, content) for path, content in sorted(image.items()) if "/" not in path)
        if top not in self._broker:
            with scratch() as root:
                put_tree(root, dict(top))
                directory = directory_with_small_tails(root)
                directory.open(1)
                clean = directory.was_clean
                directory.close()
                self._broker[top] = (
                    clean,
                    read_offsets(root / RECOVERY_POINTS),
                    read_offsets(root / LOG_START_OFFSETS),
                )
        return self._broker[top]
