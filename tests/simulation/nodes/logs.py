"""Partition logs and commit mode of simulated nodes: real files, and a write-ahead log whose syncs come from the seed."""

import errno
import os
from collections import deque
from types import SimpleNamespace

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine.storage.directory_wal import DirectoryWal
from tests.simulation.nodes.kernel import MS

METADATA_FILE = "partition.metadata"
RETRY_MS = 50


class SimulatedLog(PartitionLog):
    """A shipped log, with what the native write-ahead log would store about it.

    Attributes:
        wal: The write-ahead log in commit mode; None in os mode.
        frame: The last frame with records of this log.
        cut_count: The number of truncations.
    """

    def __init__(self, *args, **options):
        self.wal = None
        self.frame = 0
        self.cut_count = 0
        self._durable = 0

    @property
    def in_commit_mode(self):
        return self.wal is not None

    @property
    def durable(self):
        """Records below this offset are where they must be before they count."""
        return self.log_end_offset if self.wal is None else self._durable

    def is_durable_to(self, offset, cuts):
        if cuts in (-1, self.cut_count):
            self._durable = max(self._durable, min(offset, self.log_end_offset))

    def truncate_to(self, offset):
        self.cut_count += 1
        super().truncate_to(offset)
        self._durable = min(self._durable, self.log_end_offset)

    def truncate_fully_and_start_at(self, offset):
        self.cut_count += 1
        super().truncate_fully_and_start_at(offset)
        self._durable = offset


class RefusedError(OSError):
    """Raised for a node without descriptors."""


class Files:
    """Opens and creates the logs of the node whose code runs; the node may be out of descriptors.

    Attributes:
        refuses: By node, until when (simulated ns) its files cannot be opened, and the error.
    """

    def __init__(self, kernel, disks):
        self.kernel = kernel
        self.disks = disks
        self.refuses: dict[str, tuple[int, int]] = {}
        self._random = kernel.random("files")

    def check(self, path):
        """Raises OSError while the node that owns the path has no descriptors."""
        for name, (until, error) in self.refuses.items():
            if self.kernel.now < until and f"/{name}/" in f"{path}/":
                self.kernel.say(name, f"gets {errno.errorcode[error]} for {os.path.basename(path)}")
                raise RefusedError(error, os.strerror(error), path)

    def is_refusing(self, name):
        return self.refuses.get(name, (0, 0))[0] + MS >= self.kernel.now

    def open_logs(self, places, config, *, clean_shutdown, health):
        found = []
        for path, recovery_point, log_start in places:
            try:
                found.append(
                    SimulatedLog(
                        path,
                        config,
                        recovery_point=recovery_point,
                        clean_shutdown=clean_shutdown,
                        log_start_offset=log_start,
                        health=health,
                    )
                )
            except LogError as error:
                found.append(error)
        return found

    def create_logs(self, places, config, *, health):
        made = []
        for path, metadata in places:
            try:
                if self._random.random() < 0.5:
                    self.check(path)
                self.disks.check(path, makes=True)
                os.mkdir(path)
                self.disks.check(path, grows=True)
                with open(f"{path}/{METADATA_FILE}", "wb") as file:
                    file.write(metadata)
                self.check(path)  # leaves a directory without its log, which must be removed
                made.append(SimulatedLog(path, config, health=health))
            except (OSError, LogError) as error:
                return made, error
        return made, None


class SimulatedWriteAheadLog:
    """Replaces the native write-ahead log of a directory: frames, and which of them are on the medium."""

    io_reason = None

    def __init__(self, path, **_):
        self.plane = None
        self.durable_frame = 0
        self.staged_frame = 0
        self.failure = None
        self.control_is_to_know = False
        self.when_synced = None
        self.path = str(path)
        self.disks = None
        self.when_lacking = None
        self._staged: deque[tuple[int, SimulatedLog, int, int]] = deque()
        self._after: list[tuple[int, object]] = []

    def wake_by(self, who, event_fd):
        """Calls back instead of using a descriptor."""

    def mark_clean(self):
        """There are no files."""

    @property
    def closed_frame(self):
        return self.staged_frame

    def control_waits(self):
        self.control_is_to_know = True

    def stage(self, log):
        """Stages a batch that was appended."""
        self.staged_frame += 1
        log.frame = self.staged_frame
        self._staged.append((self.staged_frame, log, log.log_end_offset, log.cut_count))
        self.plane.node.after(self.plane.world.sync_ms(), self._synced, self.staged_frame)

    def after(self, log, call):
        """Calls once all of a log is on the medium."""
        self._after.append((log.frame, call))

    def _synced(self, frame):
        if frame <= self.durable_frame or self.failure is not None:
            return
        if (error := self.disks.error(f"{self.path}/bowstring.wal")) != 0:
            self._fail(error)
            return
        if self.path in self.disks.without_segment:
            self.plane.node.after(RETRY_MS, self._synced, frame)
            self.when_lacking(True)
            return
        self.when_lacking(False)
        self.durable_frame = frame
        logs = {}
        while self._staged and self._staged[0][0] <= frame:
            _, log, end, cuts = self._staged.popleft()
            log.is_durable_to(end, cuts)
            logs[id(log)] = log
        due = [call for number, call in self._after if number <= frame]
        self._after = [each for each in self._after if each[0] > frame]
        for log in logs.values():
            self.plane.log_synced(log)
        for call in due:
            call()
        self._tell()

    def _tell(self):
        if self.control_is_to_know and self.when_synced is not None:
            self.control_is_to_know = False
            self.plane.node.loop.arrives("write-ahead log", self.when_synced)

    def _fail(self, error):
        """The disk has failed: all waiters get the error."""
        self.failure = error
        self.plane.owner.say("has a write-ahead log that failed")
        due, self._after = self._after, []
        for _, call in due:
            call()
        self.control_is_to_know = True
        self._tell()

    def stop(self):
        """Writes everything to the medium."""
        self.disks.without_segment.discard(self.path)
        self._synced(self.staged_frame)

    def stats(self):
        return {"durable_frame": self.durable_frame, "checkpoint_frame": self.durable_frame}


class SimulatedWal(DirectoryWal):
    """The shipped bookkeeping of waiters for the medium, over a simulated one, without its thread."""

    def __init__(self, path, configs, plane, when_checkpointed, last_frame):
        super().__init__(path, configs, plane, when_checkpointed, last_frame)
        self.wal.plane = plane.reactors
        self.wal.disks = plane.node.world.disks
        self.wal.when_synced = self.call_waiters
        self.wal.when_lacking = self._lacks_segment

    def start(self, loop):
        self._loop = loop
        loop.call_soon(self.call_waiters)

    def _lacks_segment(self, lacks):
        if lacks != self.is_stuck:
            self.is_stuck = lacks
            self.wal.plane.owner.say(f"has {'no' if lacks else 'a'} segment for its write-ahead log")
            self.wal.plane.owner.loop.arrives("supply of segments", self.when_stuck)


def _join(log, wal, topic_id, partition):
    if wal is not None and log.wal is None:
        log._durable = log.log_end_offset
    log.wal = wal


def _leave(log, wal):
    log.wal = None
    return wal.staged_frame


DURABILITY = SimpleNamespace(
    join=_join,
    leave=_leave,
    staged_frame=lambda log: log.frame,
    cuts=lambda log: log.cut_count,
    durable_to=lambda log, offset, *, cuts=-1, advance=True: log.is_durable_to(offset, cuts),
)
"""Replaces _native/log/durability."""
