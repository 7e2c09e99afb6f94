"""Moves partitions between log directories (KIP-113), crash-safe at every step.

1. Copies batches into ``<topic>-<partition>.<uuid>-future`` in the other directory, while the partition is in
   use.
2. When little is left to copy, syncs the copy and writes the new directory to the metadata log. From here on
   a start uses the longer of the two copies (log_opener), because they share one history.
3. Copies the rest and replaces the log by the copy, between two passes of the reactors.
4. Syncs the copy, renames its directory to the partition's name, and renames the old directory for deletion.

If a crash interrupts a copy, the next start resumes it if its last batch is also in the partition; otherwise
the copy starts again.

The native modules that copy and swap are imported where they are used, not at start: few brokers move
partitions.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring.engine import background, event_log
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS
from bowstring.engine.storage.found_logs import Future, PartitionKey
from bowstring.engine.storage.log_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    LogDirectory,
    future_directory,
    partition_directory,
)
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring._native.log.future_replica import FutureReplica
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.storage.log_directories import LogDirectories
    from bowstring.engine.storage.log_manager import LogManager

_CHUNK_BYTES: Final = 1 << 20
# Bytes that the thread copies before it checks its throttle and whether it was cancelled.
_TURN_BYTES: Final = 32 << 20
# Bytes that may be left when the copy replaces the log; the reactors wait while these are copied.
_REST_BYTES: Final = 1 << 18
_REST_MOST_BYTES: Final = 1 << 24
_AGAIN_S: Final = 0.02
_UNTHROTTLED: Final = 1 << 62
_GONE: Final = frozenset(
    {Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NOT_LEADER_OR_FOLLOWER}
)


class MoveAborted(Exception):
    """The move cannot continue; the partition stays in its directory."""


class Move:
    """The move of one partition into another directory."""

    def __init__(self, topic: TopicImage, index: int, directory: LogDirectory, name: str | None) -> None:
        self.topic = topic
        self.index = index
        self.directory = directory
        self.name = name or future_directory(topic.name, index)
        self.is_resumed = name is not None
        self.log: PartitionLog | None = None
        self.task: asyncio.Task[None] | None = None
        # The topic or the target may change during the copy; the copying thread sees this flag and stops.
        self.cancelled = False
        # The copy is the partition's log: from then on LogManager removes it with the partition.
        self.is_swapped = False
        # No thread renames the directories of the copy and of the old log now.
        self.over = asyncio.Event()

    @property
    def path(self) -> str:
        """The copy's directory until the move is complete."""
        return f"{self.directory.path}/{self.name}"


class SharedRate:
    """The quota of all moves together: the time at which their copies are paid for."""

    def __init__(self) -> None:
        self._paid_s = 0.0

    def wait_s(self, now_s: float) -> float:
        """Returns how long to copy nothing."""
        return max(0.0, self._paid_s - now_s)

    def record(self, copied_bytes: int, bytes_per_s: int, since_s: float) -> None:
        """Notes the bytes copied since then."""
        self._paid_s = max(self._paid_s, since_s) + copied_bytes / max(1, bytes_per_s)


class ReplicaMoves:
    """Every move in progress. Used on the control loop; executor threads do the copying.

    Args:
        assign: Has the metadata log name the directory of this node's replica, and waits for that. It raises
            KafkaError.
        when_retired: Called when a replaced log is waiting to be unlinked.
    """

    def __init__(
        self,
        configs: "BrokerConfigs",
        metadata: "ImageSource",
        directories: "LogDirectories",
        logs: "LogManager",
        plane: "DataPlane",
        *,
        assign: Callable[[TopicImage, int, bytes], Awaitable[None]],
        when_retired: Callable[[], None],
    ) -> None:
        self._configs = configs
        self._metadata = metadata
        self._directories = directories
        self._logs = logs
        self._plane = plane
        self._assign = assign
        self._when_retired = when_retired
        self._moves: dict[PartitionKey, Move] = {}
        self._turns: asyncio.Semaphore | None = None
        self._rate = SharedRate()
        self._stopping = False

    # ------------------------------------------------------------ what handlers use

    def get(self, topic: str, index: int) -> Move | None:
        """Returns the move of a partition that is in progress."""
        return self._moves.get((topic, index))

    def __iter__(self) -> Iterator[Move]:
        return iter(self._moves.values())

    async def start(self, topic: TopicImage, index: int, directory: LogDirectory) -> None:
        """Moves a partition into a directory. A partition that is already moving changes its target.

        If the partition is already in `directory`, cancels the move in progress.
        """
        assert self._logs.get(topic.name, index) is not None, "only a partition on this broker can be moved"
        # again after each wait: another request may have begun a move
        while (under_way := self._moves.get((topic.name, index))) is not None:
            if under_way.directory is directory and not under_way.cancelled:
                return
            await self._cancel(under_way)
        log = self._logs.get(topic.name, index)
        if log is not None and self._directories.of(log) is not directory:
            self._spawn(Move(topic, index, directory, None))

    def resume(self, unfinished: Mapping[PartitionKey, Future]) -> None:
        """Resumes the moves that the last broker on these directories left unfinished."""
        for (name, index), future in unfinished.items():
            log = self._logs.get(name, index)
            if log is not None and self._directories.of(log) is not future.directory:
                self._spawn(Move(self._metadata.image.topics[name], index, future.directory, future.name))

    async def stop(self) -> None:
        """Stops every move; the next start resumes it."""
        self._stopping = True
        moves = list(self._moves.values())
        for move in moves:
            move.cancelled = True
        for move in moves:
            if move.task is not None:
                await asyncio.wait([move.task])

    # ------------------------------------------------------------ one move

    def _spawn(self, move: Move) -> None:
        if self._turns is None:
            configs = self._configs
            threads = configs.value("num.replica.alter.log.dirs.threads") or len(self._directories.all)
            self._turns = asyncio.Semaphore(threads)
        self._moves[move.topic.name, move.index] = move
        move.task = background.spawn(self._run(move), f"move {move.topic.name}-{move.index}")

    async def _cancel(self, move: Move) -> None:
        move.cancelled = True
        assert move.task is not None
        await asyncio.wait([move.task])
        if not move.is_swapped:
            await self._discard(move)

    def _is_there(self, move: Move) -> bool:
        log = self._logs.get(move.topic.name, move.index)
        return log is not None and log is move.log

    async def _run(self, move: Move) -> None:
        key = move.topic.name, move.index
        assert self._turns is not None
        try:
            async with self._turns:
                started = time.monotonic()
                source = self._source(move)
                copy = await self._open(move, source)
                await self._catch_up(move, copy)
                await self._change_over(move, copy)
                await self._finish(move, source)
                if not self._is_there(move):
                    return  # removed meanwhile, with both directories
                self._logs.left(*key)
                assert move.log is not None
                await self._logs.durability.move_ended(source, move.log, lambda: self._stopping)
                event_log.info(
                    "partition moved to another log directory",
                    partition=partition_directory(*key),
                    directory=str(move.directory.path),
                    seconds=round(time.monotonic() - started, 3),
                )
        except MoveAborted as error:
            if not move.cancelled:
                event_log.warning(
                    "the move of a partition was cancelled; the partition stays in its directory",
                    partition=partition_directory(*key),
                    detail=str(error),
                )
                await self._discard(move)
        except (LogError, KafkaError, OSError) as error:
            if self._is_there(move):
                event_log.error(
                    "a moved partition cannot leave its old directory, and the write-ahead log of the new "
                    "one grows until it does. Fix the cause in detail, then restart the broker",
                    partition=partition_directory(*key),
                    directory=str(move.directory.path),
                    detail=str(error),
                )
            elif not move.is_swapped:
                event_log.error(
                    "the move of a partition failed; the partition stays in its directory. Fix the cause in "
                    "detail, then move it again",
                    partition=partition_directory(*key),
                    directory=str(move.directory.path),
                    detail=str(error),
                )
                await self._discard(move)
        finally:
            # Once the copy is the log, its frames are kept until the old one has left (`move_ended`).
            if move.log is not None and not self._is_there(move):
                self._logs.durability.let_go(move.log)
            if self._moves.get(key) is move:
                del self._moves[key]

    def _source(self, move: Move, copied: PartitionLog | None = None) -> PartitionLog:
        """Returns the partition's present log. It must be the one that was `copied`: a topic of the same
        name may have been created since.
        """
        log = self._logs.get(move.topic.name, move.index)
        topic = self._metadata.image.topics.get(move.topic.name)
        if move.cancelled or log is None or topic is None or topic.id != move.topic.id:
            raise MoveAborted("the partition no longer exists")
        if copied is not None and log is not copied:
            raise MoveAborted("the partition has another log now")
        return log

    async def _open(self, move: Move, source: PartitionLog) -> "FutureReplica":
        image = self._metadata.image
        config = self._configs.log_config(image.topic_configs(move.topic.name))
        loop = asyncio.get_running_loop()
        copy = await loop.run_in_executor(None, open_future, move, source, config)
        move.log = copy.target
        return copy

    async def _catch_up(self, move: Move, copy: "FutureReplica") -> None:
        """Copies until little is left. All moves of the broker together are no faster than
        replica.alter.log.dirs.io.max.bytes.per.second.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._source(move, copy.source)
            bound = self._configs.value("replica.alter.log.dirs.io.max.bytes.per.second")
            if bound < _UNTHROTTLED and (wait_s := self._rate.wait_s(time.monotonic())) > 0:
                await asyncio.sleep(wait_s)
                continue
            started = time.monotonic()
            turn = max(1, min(_TURN_BYTES, bound // 4)) if bound < _UNTHROTTLED else _TURN_BYTES
            copied = await loop.run_in_executor(None, copy_turn, move, copy, turn)
            self._rate.record(max(0, copied), bound, started)
            if copied < 0:
                start = first_offset(copy.source)
                await loop.run_in_executor(None, copy.target.truncate_fully_and_start_at, start)
            elif copied < min(turn, _REST_BYTES):
                return

    async def _change_over(self, move: Move, copy: "FutureReplica") -> None:
        """Replaces the log by the copy. Writes the new directory to the metadata log first: after a crash it
        decides between two copies.
        """
        from bowstring._native.server.replica_swap import replace_log

        loop = asyncio.get_running_loop()
        name, index = move.topic.name, move.index
        before = self._directories.of(copy.source).directory_id
        await loop.run_in_executor(None, copy.target.flush)
        durability = self._logs.durability
        await self.assign(move, move.directory.directory_id)
        rest_bytes = _REST_BYTES
        try:
            while True:
                self._source(move, copy.source)
                wal = durability.prepare_move(move.directory.path, copy.target, copy.source)
                outcome = replace_log(self._plane, name, index, copy, rest_bytes, wal)
                if outcome == 0:
                    break
                if outcome < 0:
                    raise OSError(-outcome, os.strerror(-outcome), move.path)
                # Allows more bytes in the next round if producers wrote much while the copy was synced.
                rest_bytes = min(2 * rest_bytes, _REST_MOST_BYTES)
                await asyncio.sleep(_AGAIN_S)
                await self._catch_up(move, copy)
                await loop.run_in_executor(None, copy.target.flush)
        except (MoveAborted, LogError, OSError):
            durability.left(copy.target)
            if name in self._metadata.image.topics:
                await self.assign(move, before)
            raise
        move.is_swapped = True
        self._logs.replaced(name, index, copy.target, move.over)
        durability.moved(name, index, copy.target)

    async def assign(self, move: Move, directory_id: bytes) -> None:
        """Writes to the metadata log which directory the partition is in.

        Raises:
            MoveAborted: The topic is deleted, or this node no longer has a replica.
        """
        try:
            await self._assign(move.topic, move.index, directory_id)
        except KafkaError as error:
            if error.error in _GONE:
                raise MoveAborted("the partition no longer exists") from error
            raise

    async def _finish(self, move: Move, source: PartitionLog) -> None:
        """Ends a move. The new copy is durable under its final name before the old one is removed."""
        try:
            await self._rename(move, source)
        finally:
            move.over.set()

    async def _rename(self, move: Move, source: PartitionLog) -> None:
        loop = asyncio.get_running_loop()
        image = self._metadata.image
        overrides = image.topic_configs(move.topic.name)
        delay_ms = self._configs.topic_value("file.delete.delay.ms", overrides)
        retired = await loop.run_in_executor(
            None,
            partial(
                finish,
                move,
                source,
                self._directories.of(source),
                self._logs.checkpoint(RECOVERY_POINTS),
            ),
        )
        if retired is not None:
            self._logs.retired.add(retired, time.monotonic() + delay_ms / 1000)
            self._when_retired()

    async def _discard(self, move: Move) -> None:
        log, move.log = move.log, None
        retired = await asyncio.get_running_loop().run_in_executor(None, discard, move, log)
        if retired is not None:
            self._logs.retired.add(retired, time.monotonic())
            self._when_retired()


# ---------------------------------------------------------------- on other threads


def first_offset(source: PartitionLog) -> int:
    """Returns the base offset of the first batch with records that readers may see."""
    start = int(source.log_start_offset)
    data = source.read(start, 1, "log_end")
    return min(start, int.from_bytes(data[:8], "big")) if data else start


def open_future(move: Move, source: PartitionLog, config: dict[str, int]) -> "FutureReplica":
    """Creates the copy's directory, or resumes an existing copy if it is a prefix of the source."""
    from bowstring._native.log.future_replica import FutureReplica

    if move.is_resumed:
        log = PartitionLog(move.path, config, recovery_point=0, health=move.directory.health)
        copy = FutureReplica(source, log)  # first: the source may be truncated during the comparison
        if _is_prefix(log, source):
            if move.directory.read_partition_metadata(move.name) != move.topic.id:  # lost in a crash
                move.directory.write_partition_metadata(move.name, move.topic.id)
            return copy
        log.close(sync=False)
        empty = log.size_bytes == 0
        aside = move.directory.retired_name(move.topic.name, move.index, STRAY_SUFFIX)
        if empty:
            import shutil  # not at start: it loads what packs archives

            shutil.rmtree(move.path)
        else:
            os.rename(move.path, move.directory.path / aside)
            event_log.warning(
                "an unfinished copy does not match its partition and is renamed with the suffix -stray; "
                "the move starts again",
                directory=aside,
            )
    os.mkdir(move.path)
    move.directory.write_partition_metadata(move.name, move.topic.id)
    log = PartitionLog(
        move.path,
        config,
        clean_shutdown=True,
        log_start_offset=first_offset(source),
        health=move.directory.health,
    )
    return FutureReplica(source, log)


def _is_prefix(copy: PartitionLog, source: PartitionLog) -> bool:
    """Returns whether the copy's last batch is in the source, byte for byte. Then all batches before it are,
    too.
    """
    end = min(copy.log_end_offset, source.log_end_offset)
    copy.truncate_to(end)
    end = copy.log_end_offset
    if end <= copy.log_start_offset or end <= source.log_start_offset:
        return False
    try:
        last = copy.read(end - 1, 1, "log_end")
        return bool(last) and last == source.read(end - 1, 1, "log_end")
    except LogError:
        return False


def copy_turn(move: Move, copy: "FutureReplica", max_bytes: int) -> int:
    """Copies up to max_bytes. Returns the bytes copied, fewer at the end of the source; -1 when the source
    has lost the next batch.
    """
    copied = 0
    while copied < max_bytes and not move.cancelled:
        n = copy.copy(min(_CHUNK_BYTES, max_bytes - copied))
        if n <= 0:
            return n if n < 0 else copied
        copied += n
    return copied


def finish(
    move: Move, source: PartitionLog, home: LogDirectory, checkpoint: Callable[[], None]
) -> str | None:
    """Renames the copy to the partition's name; returns the path of the old log, to be deleted, if it could
    be renamed.

    Writes the copy's recovery point first: below it, records in the write-ahead log are older than the
    compacted log.
    """
    from bowstring._native.log.future_replica import move_directory

    assert move.log is not None
    name = partition_directory(move.topic.name, move.index)
    move.log.flush()
    move.directory.sync_partition_metadata(move.name)
    checkpoint()
    move_directory(move.log, f"{move.directory.path}/{name}")
    retired = f"{home.path}/{home.retired_name(move.topic.name, move.index, DELETED_SUFFIX)}"
    move_directory(source, retired)
    source.mark_deleted(retired)
    return retired


def discard(move: Move, log: PartitionLog | None) -> str | None:
    """Renames an unneeded copy; returns its path, to be deleted, if there is one."""
    if log is not None:
        log.mark_deleted(move.path)
    retired = (
        f"{move.directory.path}/{move.directory.retired_name(move.topic.name, move.index, DELETED_SUFFIX)}"
    )
    try:
        os.rename(move.path, retired)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            event_log.warning(
                "an unneeded copy of a partition could not be renamed; delete the directory while the "
                "broker is stopped",
                directory=move.path,
                detail=str(error),
            )
        return None
    return retired
