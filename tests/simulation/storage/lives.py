"""Successive lives of a broker on one disk: each ends with a stop, kill -9, or a power cut.

The power goes at one operation: it and all later ones fail, as on a file system that was shut down. The next
life finds any state of the disk that the trace of operations allows. A kill comes between two steps, or
likewise at an operation: then the next life finds the page cache, and the stores to the mapped pools.
"""

import errno
import random
import shutil
from pathlib import Path
from typing import Final
from unittest import mock

from bowstring._native.wal.write_ahead_log import WalError
from bowstring.engine.controller import batches
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY
from bowstring.engine.storage.staged_tails import TAILS_FILE
from tests.simulation.disk.crashes import scratch
from tests.simulation.disk.disk import READS, Disk, Fault, put_tree
from tests.simulation.disk.medium import KILLED, NOTHING, SYSTEMATIC, Outcome, random_outcome
from tests.simulation.disk.pool_images import placed, settle_staged
from tests.simulation.engine_modules import simulated_sources
from tests.simulation.storage.inline_loop import Clock
from tests.simulation.storage.model import Acked
from tests.simulation.storage.one_thread_broker import SETTINGS, Stalled, SteadyBroker
from tests.simulation.storage.random_steps import FAILURES, Work

LIVES: Final = 4
SEGMENT_BYTES: Final = int(SETTINGS["bowstring.wal.segment.bytes"])
ENOUGH_BYTES: Final = 40_000  # for a batch, a new segment and its indexes
METADATA_BATCH_BYTES: Final = 4000  # changes of some dozen records take several, as thousands do
STEPS: Final = (5, 45)
# (event, its weight)
ENDS: Final = {"stop": 1, "kill": 2, "power": 5}
TROUBLE: Final = {
    "none": 6,
    "no descriptors": 2,
    "failed sync": 2,
    "failed frame": 1,
    "failed write": 1,
    "failed metadata": 1,
    "full": 3,
}
POOLS: Final = (f"a/{TAILS_FILE}", f"b/{TAILS_FILE}")
POWER_OUTCOMES: Final = [each for each in SYSTEMATIC if each.name not in ("the process is killed",)]


def after_power_loss(disk: Disk, outcome: Outcome) -> Disk:
    """Returns the disk that the next start finds at the same path; KILLED: only the process has died."""
    medium = disk.medium()
    for event in disk.trace:
        medium.apply(event)
    moment = len(disk.trace)
    image = medium.image(outcome, moment, disk.under_way)
    inodes = medium.inodes(outcome, moment)
    paths = {real: inodes[made] for real, made in disk.real_inodes.items() if made in inodes}
    for pool in disk.mapped:
        image = placed(image, paths, pool)
    for path in disk.root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    put_tree(disk.root, image)
    for pool in disk.mapped:
        settle_staged(disk.root, image, same_boot=outcome is KILLED, path=pool)
    return Disk(disk.root, mapped=disk.mapped)


class Lives:
    """One simulation.

    Attributes:
        story: The events, to diagnose a seed that fails.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.clock = Clock()
        self.work = Work(seed)
        self.story: list[str] = []
        self._operations = 0
        self._power_at = -1
        self._power_at_sync = False
        self._changes = 0
        self._fault_at = -1
        self._trouble = "none"
        self._room = 0  # before a segment of the write-ahead log was created
        self._unjust = ""

    def run(self) -> None:
        """Runs the whole simulation.

        Raises:
            AssertionError: A promise was broken; the story has the events before.
        """
        try:
            with (
                scratch() as root,
                mock.patch.object(batches, "BATCH_BYTES", METADATA_BATCH_BYTES),
                simulated_sources(self.clock, random.Random(f"{self.seed} sources")),
            ):
                self._run(root)
        except BaseException as problem:
            story = "\n".join(self.story[-60:])
            raise AssertionError(f"seed {self.seed}: {problem!r}\n{story}") from problem

    def _run(self, root: Path) -> None:
        disk, survived, safe = Disk(root, mapped=POOLS), Acked.KILL, Acked.POWER
        for life in range(LIVES):
            self.story.append(f"life {life}")
            last = life == LIVES - 1
            end = self.chance.choices(list(ENDS), list(ENDS.values()))[0]
            with disk.watched():
                if not last and self.chance.random() < 0.25:
                    end = "power"
                    self._begin(disk, end, "none", most=60)
                    self._start_and_lose_power(disk)
                    if self._generator(life).random() < 0.4:
                        end = "kill at start"
                else:
                    self._begin(disk, "", "none")
                    broker = SteadyBroker(disk.root, self.clock)
                    self.work.adopt(broker, survived, safe)
                    trouble = self.chance.choices(list(TROUBLE), list(TROUBLE.values()))[0]
                    self._begin(disk, end, trouble)
                    end = self._live(disk, broker, end)
            self.story.append(f"  after {disk.calls} operations")
            if end == "kill at start":
                self.story.append("  killed at its start")
                disk = after_power_loss(disk, KILLED)  # it had to survive the events before this start
            else:
                disk, survived, safe = self._next(disk, end)

    # ------------------------------------------------------------ a life

    def _begin(self, disk: Disk, end: str, trouble: str, most: int = 700) -> None:
        self.story.append(f"  ends by {end}, trouble: {trouble}")
        self._operations = self._changes = 0
        self._power_at = (
            self.chance.randrange(1, self.chance.choice([30, 150, most])) if end == "power" else -1
        )
        # The written data is then not on the medium yet.
        self._power_at_sync = self.chance.random() < 0.5
        kills = self._generator(len(self.story))
        if end == "kill" and kills.random() < 0.6:
            self._power_at, self._power_at_sync = kills.randrange(1, kills.choice([30, 150, most])), False
        self._fault_at = self.chance.randrange(1, 400) if trouble not in ("none", "full") else -1
        self._trouble = trouble
        disk.capacity = None
        disk.watcher = lambda operation, path: self._watch(disk, operation, path)

    def _generator(self, number: int) -> random.Random:
        """Another generator: with the choices of kills in the first, the known seeds would not be what they were."""
        return random.Random(f"{self.seed} {number}")

    def _watch(self, disk: Disk, operation: str, path: str) -> Fault | None:
        """Cuts power, makes operations fail, or interleaves an append."""
        self._operations += 1
        self._changes += operation not in READS
        if self._changes >= self._power_at > 0 and (operation == "sync" or not self._power_at_sync):
            self.story.append(f"  it ends at {operation} of {path}")
            disk.power_off()
            return None
        if operation == "rename" and path.endswith(f"{RECOVERY_POINTS}.tmp"):
            self.work.remember_points()
        if operation == "sync" and self.chance.random() < 0.3:
            self.work.interleave()
        if "bowstring.wal." in path and disk.capacity is not None:
            self._watch_supply(disk, operation)
        if self._fault_at < 0 or self._operations < self._fault_at:
            return None
        kinds = {
            "no descriptors": (("open", "open_new"), errno.EMFILE),
            "failed sync": (("sync",), errno.EIO),
            "failed frame": (("write_durable",), errno.EIO),
            "failed write": (("pwritev",), errno.EIO),
            "failed metadata": (("sync", "pwritev"), errno.EIO),
        }
        operations, error = kinds[self._trouble]
        is_meant = (METADATA_PARTITION_DIRECTORY in path) == (self._trouble == "failed metadata")
        if operation not in operations or not is_meant or "/" not in path:
            return None
        if self._trouble != "failed frame" and "bowstring.wal" in path:
            return None
        if self._trouble == "failed sync" and self.work.is_loose(path):
            return None  # in os mode no promise covers data that a failed sync did not write
        self._fault_at = -1
        self.story.append(f"  {operation} of {path} fails: {errno.errorcode[error]}")
        if operation == "sync":
            self.work.sync_failed(path)
        return Fault(error)

    def _watch_supply(self, disk: Disk, operation: str) -> None:
        """Appends continue while a segment is created; one that does not fit does not affect them."""
        if operation == "open_new":
            self._room = disk.free_bytes()
        elif operation == "pwritev" and self.chance.random() < 0.5:
            room = self._room if self._room < SEGMENT_BYTES else self._room - SEGMENT_BYTES
            if room > ENOUGH_BYTES and not self.work.appends():
                self._unjust = f"no room for an append, and {room} bytes were free before a segment was made"

    def _live(self, disk: Disk, broker: SteadyBroker, end: str) -> str:
        """Works until the life ends; returns how it ended."""
        full_from, full_to = -1, -1
        steps = self.chance.randrange(*STEPS)
        if self._trouble == "full":
            full_from = self.chance.randrange(steps)
            full_to = full_from + self.chance.randrange(1, 12)
        for number in range(steps):
            if number == full_from:
                disk.capacity = disk.used_bytes() + self.chance.choice([20_000, 100_000, 400_000])
                self.story.append(f"  the disk has {disk.free_bytes()} bytes left")
            if number == full_to:
                disk.capacity = None
            self._step(disk)
            if disk.is_off or broker.is_lost:
                break
        disk.capacity = None
        if broker.is_lost and end == "stop":
            end = "kill"  # the process ends by itself
        if not disk.is_off and not broker.is_lost:
            self.work.nothing_hangs()
        if end == "power" and not disk.is_off:
            disk.power_off()
        if end == "stop":
            try:
                broker.stop()
            except FAILURES as error:
                assert self._trouble != "none", f"a stop fails: {error!r}"
                broker.abandon()
                return "kill"
        else:
            broker.abandon()
        return end

    def _step(self, disk: Disk) -> None:
        name = self.work.choose()
        self.story.append(f"  {name}")
        try:
            self.work.do(name)
            assert not self._unjust, self._unjust
        except FAILURES as error:
            assert not self._unjust, self._unjust
            self.story.append(f"  it fails: {_told(error, disk)}")
            assert disk.is_off or not isinstance(error, Stalled), error
            assert disk.is_off or self._trouble != "none", f"{name} fails without a reason: {error!r}"

    def _start_and_lose_power(self, disk: Disk) -> None:
        try:
            SteadyBroker(disk.root, self.clock).abandon()
        except (*FAILURES, WalError, DataDirectoryError) as error:
            self.story.append(f"  the start ends: {_told(error, disk)}")
        disk.power_off()

    # ------------------------------------------------------------ the next life

    def _next(self, disk: Disk, end: str) -> tuple[Disk, Acked, Acked]:
        """Returns the next life's disk, what acknowledged batches had to survive, and what all data now survives."""
        if end == "kill" and disk.is_off:
            return after_power_loss(disk, KILLED), Acked.KILL, Acked.KILL
        if end != "power":
            return disk, Acked.KILL, Acked.POWER if end == "stop" else Acked.KILL
        outcome = self._outcome()
        self.story.append(f"  outcome: {outcome}")
        return after_power_loss(disk, outcome), Acked.POWER, Acked.POWER

    def _outcome(self) -> Outcome:
        """Returns an outcome with names in order: no supported file system keeps a later name and loses an earlier one."""
        if self.chance.random() < 0.5:
            return random_outcome(self.chance.randrange(1 << 30), journal=True)
        return self.chance.choice([*POWER_OUTCOMES, NOTHING])


def _told(error: Exception, disk: Disk) -> str:
    """Returns what the story says of an error: the same in each run."""
    return f"{error!r}".replace(str(disk.root), "")[:150]
