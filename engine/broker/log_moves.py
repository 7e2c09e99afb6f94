"""Moves of partitions between log directories (KIP-113), crash-safe at every step.

1. Batches are copied into ``<topic>-<partition>.<uuid>-future`` in the other directory, while the partition
   is used.
2. Once little is missing, the copy is synced and the metadata log told of the new directory. From here on a
   start takes the longer of the two copies (log_start): they share one history.
3. The rest is copied and the copy takes the log's place, between two passes of the reactors.
4. The copy is synced, its directory takes the partition's name, and the old one is renamed to be deleted.

A copy that a crash interrupts is taken up at the next start if its last batch is the partition's own, else
made anew.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from bowstring._native.log import LogError, PartitionLog
from bowstring._native.log_copy import LogCopy, move_directory
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.data_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    DataDirectory,
    future_directory,
    partition_directory,
)
from bowstring.engine.broker.log_placement import Future, PartitionKey
from bowstring.engine.errors import KafkaError
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.protocol.records.cluster_metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

_CHUNK_BYTES: Final = 1 << 20
# Copied by the thread before it looks at its throttle and its orders again.
_TURN_BYTES: Final = 32 << 20
# What may still be missing when the copy takes the log's place: reactors wait for that long.
_REST_BYTES: Final = 1 << 18
_AGAIN_S: Final = 0.02
_UNTHROTTLED: Final = 1 << 62


class MoveAborted(Exception):
    """The move cannot go on; the partition is where it was."""


def change_of_directory(
    topic: TopicImage, index: int, node_id: int, directory_id: bytes
) -> PartitionChangeRecord:
    """The record that gives a node's replica another log directory (KIP-858)."""
    partition = topic.partitions[index]
    ids = [*partition.directories, *[bytes(16)] * (len(partition.replicas) - len(partition.directories))]
    ids[partition.replicas.index(node_id)] = directory_id
    return PartitionChangeRecord(partition_id=index, topic_id=topic.id, directories=ids)


class Move:
    """One partition on its way into another directory."""

    def __init__(self, topic: TopicImage, index: int, directory: DataDirectory, name: str | None) -> None:
        self.topic = topic
        self.index = index
        self.directory = directory
        self.name = name or future_directory(topic.name, index)
        self.is_resumed = name is not None
        self.log: PartitionLog | None = None
        self.task: asyncio.Task[None] | None = None
        # What a copy was opened for may change; the thread at work sees this and stops.
        self.cancelled = False

    @property
    def path(self) -> str:
        """The copy's directory until the move is over."""
        return f"{self.directory.path}/{self.name}"


class LogMoves:
    """Every move under way. On the control loop; the work itself is done by executor threads."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._moves: dict[PartitionKey, Move] = {}
        self._turns: asyncio.Semaphore | None = None

    # ------------------------------------------------------------ what handlers use

    def get(self, topic: str, index: int) -> Move | None:
        """The move of a partition that is under way."""
        return self._moves.get((topic, index))

    def __iter__(self) -> Iterator[Move]:
        return iter(self._moves.values())

    async def start(self, topic: TopicImage, index: int, directory: DataDirectory) -> None:
        """Moves a partition into a directory; one that is moving elsewhere changes its way.

        A move to where the partition is, ends the one that is under way.
        """
        log = self._broker.logs.get(topic.name, index)
        assert log is not None, "only a partition that is here can be moved"
        under_way = self._moves.get((topic.name, index))
        if under_way is not None:
            if under_way.directory is directory:
                return
            await self._cancel(under_way)
        if self._broker.directories.of(self._broker.logs.get(topic.name, index) or log) is not directory:
            self._spawn(Move(topic, index, directory, None))

    def resume(self, unfinished: Mapping[PartitionKey, Future]) -> None:
        """Takes up the copies that the last broker on these directories left behind."""
        for (name, index), future in unfinished.items():
            log = self._broker.logs.get(name, index)
            if log is not None and self._broker.directories.of(log) is not future.directory:
                self._spawn(
                    Move(self._broker.metadata.image.topics[name], index, future.directory, future.name)
                )

    async def stop(self) -> None:
        """Ends every move where it is; the next start takes it up."""
        moves = list(self._moves.values())
        for move in moves:
            move.cancelled = True
        for move in moves:
            if move.task is not None:
                await asyncio.wait([move.task])

    # ------------------------------------------------------------ one move

    def _spawn(self, move: Move) -> None:
        if self._turns is None:
            configs = self._broker.configs
            threads = configs.value("num.replica.alter.log.dirs.threads") or len(self._broker.directories.all)
            self._turns = asyncio.Semaphore(threads)
        self._moves[move.topic.name, move.index] = move
        move.task = asyncio.create_task(self._run(move), name=f"move {move.topic.name}-{move.index}")

    async def _cancel(self, move: Move) -> None:
        move.cancelled = True
        assert move.task is not None
        await asyncio.wait([move.task])
        if not self._is_there(move):
            await self._discard(move)

    def _is_there(self, move: Move) -> bool:
        log = self._broker.logs.get(move.topic.name, move.index)
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
                log_lines.info(
                    "partition moved",
                    partition=partition_directory(*key),
                    directory=str(move.directory.path),
                    seconds=round(time.monotonic() - started, 3),
                )
        except MoveAborted as error:
            if not move.cancelled:
                log_lines.warning(
                    "a move has ended early", partition=partition_directory(*key), detail=str(error)
                )
                await self._discard(move)
        except (LogError, KafkaError, OSError) as error:
            log_lines.error(
                "a partition cannot be moved; it stays where it is",
                partition=partition_directory(*key),
                directory=str(move.directory.path),
                detail=str(error),
            )
            if not self._is_there(move):
                await self._discard(move)
        finally:
            if self._moves.get(key) is move:
                del self._moves[key]

    def _source(self, move: Move) -> PartitionLog:
        """The partition's log now."""
        log = self._broker.logs.get(move.topic.name, move.index)
        if move.cancelled or log is None or move.topic.name not in self._broker.metadata.image.topics:
            raise MoveAborted("the partition is gone")
        return log

    async def _open(self, move: Move, source: PartitionLog) -> LogCopy:
        image = self._broker.metadata.image
        config = self._broker.configs.log_config(image.topic_configs(move.topic.name))
        loop = asyncio.get_running_loop()
        move.log = await loop.run_in_executor(None, open_future, move, source, config)
        return LogCopy(source, move.log)

    async def _catch_up(self, move: Move, copy: LogCopy) -> None:
        """Copies until little is missing, no faster than replica.alter.log.dirs.io.max.bytes.per.second."""
        loop = asyncio.get_running_loop()
        while True:
            self._source(move)
            bound = self._broker.configs.value("replica.alter.log.dirs.io.max.bytes.per.second")
            started = time.monotonic()
            turn = max(1, min(_TURN_BYTES, bound // 4)) if bound < _UNTHROTTLED else _TURN_BYTES
            copied = await loop.run_in_executor(None, copy_turn, move, copy, turn)
            if copied < 0:
                start = first_offset(copy.source)
                await loop.run_in_executor(None, copy.target.truncate_fully_and_start_at, start)
            elif copied < min(turn, _REST_BYTES):
                return
            elif bound < _UNTHROTTLED:
                await asyncio.sleep(max(0.0, copied / max(bound, 1) - (time.monotonic() - started)))

    async def _change_over(self, move: Move, copy: LogCopy) -> None:
        """The metadata log names the new directory first: it decides between two copies after a crash."""
        loop = asyncio.get_running_loop()
        name, index = move.topic.name, move.index
        before = self._broker.directories.of(copy.source).directory_id
        await loop.run_in_executor(None, copy.target.flush)
        durability = self._broker.logs.durability
        overrides = self._broker.metadata.image.topic_configs(name)
        wal = durability.wal_for_move(move.directory.path, copy.source, overrides)
        await self._assign(move, move.directory.directory_id)
        try:
            while True:
                self._source(move)
                outcome = self._broker.plane.replace_log(name, index, copy, _REST_BYTES, wal)
                if outcome == 0:
                    break
                if outcome < 0:
                    raise OSError(-outcome, os.strerror(-outcome), move.path)
                await asyncio.sleep(_AGAIN_S)
                await self._catch_up(move, copy)
        except (MoveAborted, LogError, OSError):
            if name in self._broker.metadata.image.topics:
                await self._assign(move, before)
            raise
        self._broker.logs.replaced(name, index, copy.target)
        durability.moved(copy.source, copy.target)

    async def _assign(self, move: Move, directory_id: bytes) -> None:
        metadata = self._broker.metadata
        async with metadata.changing() as image:
            topic = image.topics.get(move.topic.name)
            if topic is None or topic.id != move.topic.id:
                raise MoveAborted("the topic is deleted")
            record = change_of_directory(topic, move.index, self._broker.node_id, directory_id)
            await self._broker.changes.commit([record])

    async def _finish(self, move: Move, source: PartitionLog) -> None:
        """The new copy is on the medium under its name before the old one's is taken away."""
        loop = asyncio.get_running_loop()
        image = self._broker.metadata.image
        overrides = image.topic_configs(move.topic.name)
        delay_ms = self._broker.configs.topic_value("file.delete.delay.ms", overrides)
        retired = await loop.run_in_executor(
            None, partial(finish, move, source, self._broker.directories.of(source))
        )
        if retired is not None:
            self._broker.logs.retire_later(retired, time.monotonic() + delay_ms / 1000)
            self._broker.housekeeping.cluster_changed()

    async def _discard(self, move: Move) -> None:
        log, move.log = move.log, None
        retired = await asyncio.get_running_loop().run_in_executor(None, discard, move, log)
        if retired is not None:
            self._broker.logs.retire_later(retired, time.monotonic())
            self._broker.housekeeping.cluster_changed()


# ---------------------------------------------------------------- on other threads


def first_offset(source: PartitionLog) -> int:
    """The base offset of the first batch that holds anything readers may have."""
    start = int(source.log_start_offset)
    data = source.read(start, 1, "log_end")
    return min(start, int.from_bytes(data[:8], "big")) if data else start


def open_future(move: Move, source: PartitionLog, config: dict[str, int]) -> PartitionLog:
    """Makes the copy's directory, or takes up what is there if it is the beginning of the source."""
    if move.is_resumed:
        log = PartitionLog(move.path, config, recovery_point=0, health=move.directory.health)
        if _is_prefix(log, source):
            return log
        log.close(sync=False)
        empty = log.size_bytes == 0
        aside = move.directory.retired_name(move.topic.name, move.index, STRAY_SUFFIX)
        if empty:
            shutil.rmtree(move.path)
        else:
            os.rename(move.path, move.directory.path / aside)
            log_lines.warning("a copy that is no part of its partition is set aside", directory=aside)
    os.mkdir(move.path)
    move.directory.write_partition_metadata(move.name, move.topic.id)
    return PartitionLog(
        move.path,
        config,
        clean_shutdown=True,
        log_start_offset=first_offset(source),
        health=move.directory.health,
    )


def _is_prefix(copy: PartitionLog, source: PartitionLog) -> bool:
    """Whether the copy's last batch is in the source, byte for byte: then so was all before it."""
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


def copy_turn(move: Move, copy: LogCopy, max_bytes: int) -> int:
    """Copies up to max_bytes; fewer when there is no more, -1 when the source lost what comes next."""
    copied = 0
    while copied < max_bytes and not move.cancelled:
        n = copy.copy(min(_CHUNK_BYTES, max_bytes - copied))
        if n <= 0:
            return n if n < 0 else copied
        copied += n
    return copied


def finish(move: Move, source: PartitionLog, home: DataDirectory) -> str | None:
    """Gives the copy the partition's name; the path of the old log, to be deleted, if it could be renamed."""
    assert move.log is not None
    name = partition_directory(move.topic.name, move.index)
    move.log.flush()
    move_directory(move.log, f"{move.directory.path}/{name}")
    retired = f"{home.path}/{home.retired_name(move.topic.name, move.index, DELETED_SUFFIX)}"
    move_directory(source, retired)
    source.mark_deleted(retired)
    return retired


def discard(move: Move, log: PartitionLog | None) -> str | None:
    """Takes a copy that will not be needed out of the way; its path, to be deleted, if there is one."""
    if log is not None:
        log.mark_deleted(move.path)
    retired = (
        f"{move.directory.path}/{move.directory.retired_name(move.topic.name, move.index, DELETED_SUFFIX)}"
    )
    try:
        os.rename(move.path, retired)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            log_lines.warning("a copy cannot be taken away", directory=move.path, detail=str(error))
        return None
    return retired
