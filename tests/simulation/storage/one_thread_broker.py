"""A broker in one thread: everything runs only on request, and in the same order each time."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from bowstring._native.log import durability as log_durability
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from bowstring.engine.broker.lone_broker import LoneBroker
from bowstring.engine.storage.directory_wal import DirectoryWal

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "bowstring.local.socket": "off",
    "bowstring.durability": "commit",
    "bowstring.tail.from.bytes": "0",
    "bowstring.tail.pool.bytes": str(256 << 10),
    "bowstring.wal.io": "pwrite",
    "bowstring.wal.segment.bytes": str(256 << 10),
    "bowstring.wal.max.bytes": str(8 << 20),
    "bowstring.reactor.threads": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.commit.timeout.ms": "3600000",
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "0",
    "log.cleaner.backoff.ms": "3600000",
    "log.retention.ms": "-1",
    "log.segment.delete.delay.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}

GROUP_FRAMES = 4  # of a segment's quarter each: more than one segment holds beside its trailer


class Stalled(OSError):
    """An operation waits although it could continue."""


class InlineLoop(asyncio.SelectorEventLoop):
    """An event loop whose executor is its own thread.

    Attributes:
        delay: How many turns of the loop an executor's thread waits for a processor: then other tasks run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.delay: Callable[[], int] = lambda: 0

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.create_future()
        self._run_later(self.delay(), future, partial(func, *args))
        return future

    def _run_later(self, turns: int, future: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
        if turns > 0:
            self.call_soon(self._run_later, turns - 1, future, work)
        elif not future.cancelled():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)


class SteadyBroker:
    """A broker that was opened but not started: its parts are called one by one.

    Raises what `LoneBroker.open` raises.
    """

    def __init__(self, root: Path) -> None:
        self.loop = InlineLoop()
        self.broker = LoneBroker(SETTINGS | {"log.dirs": f"{root}/a,{root}/b"})
        for home in self.broker.directories.all:
            # Every append is staged, whatever the clock says; tails are written out at a step of the work.
            home.tails.rest_ms, home.tails.in_background = 1 << 40, False
        try:
            self.broker.open()
        except BaseException:
            self.loop.close()
            raise

    def run(self, work: Awaitable[T]) -> T:
        """Runs a coroutine to its end."""

        async def awaited() -> T:
            return await work

        return self.loop.run_until_complete(awaited())

    def run_for(self, work: Awaitable[asyncio.Future[Any]]) -> "asyncio.Future[Any]":
        """Runs a coroutine until it returns a future, which may complete at any later time."""

        async def awaited() -> list[asyncio.Future[Any]]:
            return [await work]

        return self.loop.run_until_complete(awaited())[0]

    def turn(self) -> None:
        """Runs the callbacks and tasks that are ready."""
        self.run(asyncio.sleep(0))

    # ------------------------------------------------------------ the work of its parts

    def log(self, topic: str, index: int) -> PartitionLog | None:
        """Returns the log of a partition."""
        return self.broker.logs.get(topic, index)

    def wals(self) -> list[DirectoryWal]:
        """The write-ahead logs, in the order of their directories."""
        return [wal for _, wal in sorted(self.broker.logs.durability.wals.items())]

    def wal_of(self, log: PartitionLog) -> WriteAheadLog:
        """Returns the write-ahead log of a log in commit mode."""
        return self.broker.logs.durability.wals[os.path.dirname(log.directory)].wal

    def commit(self) -> None:
        """Writes staged batches to the medium, if there is room.

        Raises:
            OSError: The write-ahead log could not be written, or got no room although there was some.
        """
        self.run(self._commit())

    async def _commit(self) -> None:
        self.commit_now()

    def commit_now(self) -> None:
        """Like `commit`, while the loop runs."""
        for wal in self.wals():
            try:
                while wal.wal.failure is None and wal.wal.durable_frame < wal.wal.staged_frame:
                    if not self.has_room(wal):
                        break
                    wal.wal.commit()
            finally:
                wal.call_waiters()

    def has_room(self, wal: DirectoryWal) -> bool:
        """Provides segments before they are needed, like the supply thread; frames of one write may need two."""
        try:
            for _ in range(4):
                wal.make_room(2)
        except OSError:
            home = self.broker.directories.by_path(str(wal.path))
            if wal.wal.stats()["full_segments"] > 0 and home is not None and not home.health.failed:
                raise Stalled("a checkpoint would have given room to the write-ahead log") from None
            return False
        return self._group_fits(wal)

    def _group_fits(self, wal: DirectoryWal) -> bool:
        """The write-ahead log's thread waits for a second segment in the middle of a group; no other may."""
        if (
            wal.wal.staged_frame - wal.wal.durable_frame < GROUP_FRAMES
            or wal.wal.stats()["free_segments"] > 1
        ):
            return True
        try:
            wal.add_segment()
        except OSError:
            wal.checkpoint()
        return wal.wal.stats()["free_segments"] > 1

    def durable(self, log: PartitionLog, offset: int) -> None:
        """Does the work of a reactor when a batch is durable in the write-ahead log."""
        log_durability.durable_to(log, offset)

    # ------------------------------------------------------------ the end

    def stop(self) -> None:
        """Stops cleanly."""
        self.run(self._stop())
        self.abandon()

    async def _stop(self) -> None:
        self.broker.housekeeping.stop()
        await self.broker.cleaner.stop()
        await self.broker.moves.stop()
        await self.broker.coordination.stop()
        self.broker.peers.close()
        self.broker.plane.stop()
        await self.broker.alone.settle()
        self.broker.close()

    def abandon(self) -> None:
        """Ends like kill -9: data that is only in its memory is lost."""
        for home in self.broker.directories.all:
            home.tails.abandon()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self.turn()
        self.broker.plane.stop()
        self.broker.logs.durability.close(is_clean=lambda _: False)
        self.broker.directories.close()
        self.loop.close()
