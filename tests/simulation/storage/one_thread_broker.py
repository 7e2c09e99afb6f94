"""A broker in one thread: everything runs only on request, and in the same order each time."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from bowstring._native.log import durability as log_durability
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.wal.write_ahead_log import WriteAheadLog
from bowstring.engine import background
from bowstring.engine.broker import node
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.node import NodeLostError
from bowstring.engine.storage.directory_wal import DirectoryWal
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.schema import Request, Response
from tests.simulation.storage.inline_loop import Clock, InlineLoop

T = TypeVar("T")

SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",  # each run registers the same
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
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "metadata.max.retention.bytes": "20000",
    "log.segment.delete.delay.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}

GROUP_FRAMES = 4  # of a segment's quarter each: more than one segment holds beside its trailer


ENDING_TURNS = 20


class Stalled(OSError):
    """An operation waits although it could continue."""


class StillPlane(DataPlane):
    """A data plane without reactors: its work is done where the harness says so."""

    def start(self, *, accepts: bool = True) -> None:
        """Starts no thread."""

    def accept(self) -> None:
        """Accepts no connection."""


class OneThreadBroker(Broker):
    """A broker whose timers and threads of the storage are not started: the harness calls their work."""

    async def _serve(self) -> None:
        self.coordination.begin_held()
        self.moves.resume(self.logs.unfinished)


class SteadyBroker:
    """A node alone: a broker with the only controller of its quorum, started without threads.

    Raises what `Broker.open` and `start` raise.
    """

    def __init__(self, root: Path, clock: Clock) -> None:
        self.loop = InlineLoop(clock)
        self.broker = OneThreadBroker(SETTINGS | {"log.dirs": f"{root}/a,{root}/b"})
        for home in self.broker.directories.all:
            # Every append is staged, whatever the clock says; tails are written out at a step of the work.
            home.tails.rest_ms, home.tails.in_background = 1 << 40, False
        try:
            with mock.patch.object(node, "DataPlane", StillPlane):
                self.broker.open()
        except BaseException:
            self.loop.close()
            raise
        try:
            self.loop.run_until_complete(self.broker.start())
        except BaseException:
            self.abandon()
            raise

    @property
    def is_lost(self) -> bool:
        """Whether the process ends: it cannot write the metadata log."""
        return self.broker.quorum.has_failed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end.

        Raises:
            NodeLostError: The process ends before.
        """
        results: list[T] = []

        async def awaited() -> None:
            results.append(await work)

        if not self.loop.run_until_complete(background.run_unless(awaited(), self.broker.quorum.failed)):
            raise NodeLostError(self.broker.directories)
        return results[0]

    def turn(self) -> None:
        """Runs the callbacks and tasks that are ready."""
        self.loop.run_until_complete(asyncio.sleep(0))

    # ------------------------------------------------------------ the work of its parts

    async def answer(self, request: Request) -> Response:
        """Answers a client's request in its newest version.

        Raises:
            KafkaError: NOT_CONTROLLER: a client would get no answer.
        """
        version = API_VERSIONS[request.api_key].highest
        answer = await self.broker.dispatcher.answer_within(request, version)
        if answer is None:
            raise KafkaError(Errors.NOT_CONTROLLER)
        return answer

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
        self.loop.run_until_complete(self.broker.stop())
        self.abandon()

    def abandon(self) -> None:
        """Ends like kill -9: data that is only in its memory is lost."""
        for home in self.broker.directories.all:
            home.tails.abandon()
        for _ in range(ENDING_TURNS):
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.turn()
        quorum = self.broker.quorum
        if quorum._is_open:
            quorum._is_open = False
            quorum._log.synced_end.close()
        self.broker.plane.stop()
        self.broker.logs.durability.close(is_clean=lambda _: False)
        self.broker.directories.close()
        self.broker.descriptors.give_back()
        self.loop.close()
