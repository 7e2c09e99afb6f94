"""Runs one share partition: its in-flight window, the persister, and the ends of locks."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from bowstring._native.log.partition_log import LogError
from bowstring._native.share.partition import SharePartition, StateChange
from bowstring.engine import background, event_log
from bowstring.engine.share.leader.dead_letter_batches import DeadLetter
from bowstring.engine.share.leader.settings import ShareSettings
from bowstring.engine.share.persister.interface import (
    UNINITIALIZED_START_OFFSET,
    Persister,
    SharePartitionKey,
    WrittenState,
)
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.share_batches import StateBatch

StartOffset = Callable[[str], Awaitable[int]]
"""Awaits the offset at which a value of share.auto.offset.reset says to start."""

_ARCHIVING: Final = 3
# What the persister's errors mean for members, as in Kafka; others are UNKNOWN_SERVER_ERROR.
_ANSWERED: Final = {
    Errors.NOT_COORDINATOR: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_NOT_AVAILABLE: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.GROUP_ID_NOT_FOUND: Errors.GROUP_ID_NOT_FOUND,
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.FENCED_LEADER_EPOCH: Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.FENCED_STATE_EPOCH: Errors.NOT_LEADER_OR_FOLLOWER,
}
# After these the state is loaded anew, here or by another leader.
_FENCING: Final = frozenset(
    {Errors.NOT_LEADER_OR_FOLLOWER, Errors.GROUP_ID_NOT_FOUND, Errors.UNKNOWN_TOPIC_OR_PARTITION}
)
# Locks that end within this time of one another end together.
_LOCKS_TOGETHER_S: Final = 0.05
# How long the next one waits for copies to a dead-letter topic that cannot be written.
_COPIES_S: Final = 2.0
_NO_MEMORY_S: Final = 1.0


def _told(error: Error) -> Error:
    return error if error is Errors.NONE else _ANSWERED.get(error, Errors.UNKNOWN_SERVER_ERROR)


def steady_ms() -> int:
    """Milliseconds of the loop's clock, which locks are measured by."""
    return int(asyncio.get_running_loop().time() * 1000)


class _Write(NamedTuple):
    """A change to store; `pending` ones are completed afterwards.

    Attributes:
        of_copies: It is stored even if the state is no longer used, so that no record is copied twice.
    """

    change: StateChange
    pending: bool
    done: "asyncio.Future[Error]"
    of_copies: bool = False


class DeadLetterWriter(Protocol):
    """Writes letters, as `DeadLetters` does."""

    async def write(self, key: SharePartitionKey, letters: Sequence[DeadLetter], /) -> bool:
        """Writes a letter for each record, or logs why it cannot be. False if the next leader writes them."""


class LedSharePartition:
    """A share partition whose topic partition this broker leads. Used on the control loop.

    Attributes:
        leader_epoch: The epoch in which it was loaded.
        dropped: Its state is no longer used.
        waiting: Fetches to wake when there may be something for them.
        bytes_per_record: What records took in the last fetch.
        dead_letters: Copies records to the group's dead-letter topic. Set it before `load`.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        persister: Persister,
        settings: Callable[[], ShareSettings],
        when_fenced: "Callable[[LedSharePartition], None]",
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.dropped = False
        self.waiting: dict[asyncio.Event, None] = {}  # woken in the order in which they came
        self.bytes_per_record = 1024.0
        self.dead_letters: DeadLetterWriter | None = None
        self._persister = persister
        self._settings = settings
        self._when_fenced = when_fenced
        self._letters: list[DeadLetter] = []
        self._copying: asyncio.Task[None] | None = None
        self._gives_way = False
        self._busy = False
        self._contended = False
        self._window: SharePartition | None = None
        self._configured: ShareSettings | None = None
        self._state_epoch = 0
        self._stored_start = 0
        self._loading: asyncio.Task[Error] | None = None
        self._writes: deque[_Write] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ loading

    def load(self, start_offset: StartOffset, after: "LedSharePartition | None" = None) -> None:
        """Begins to read the state.

        Args:
            start_offset: For a group that has no offset yet.
            after: The last one that had the state here; what it writes may still succeed.
        """
        assert self._loading is None
        self._loading = background.spawn(self._load(start_offset, after), "load of a share partition")

    @property
    def is_ending(self) -> bool:
        """Whether changes are still being stored, or records copied to the dead-letter topic."""
        return bool(self._running())

    def _running(self) -> "list[asyncio.Task[None]]":
        tasks = (self._writing, self._copying)
        return [task for task in tasks if task is not None and not task.done()]

    async def ended(self) -> None:
        """Waits until all stores and copies have ended. Call it when the partition is dropped."""
        while running := self._running():
            await asyncio.wait(running)

    async def give_way(self) -> None:
        """Waits as `ended` does, but not long for copies: the next one finds the rest in the state."""
        try:
            async with asyncio.timeout(_COPIES_S):
                await self.ended()
        except TimeoutError:
            self._gives_way = True
            if self._copying is not None:
                self._copying.cancel()
            await self.ended()

    @property
    def load_error(self) -> Error | None:
        """Why the state could not be read; None while it is read, and afterwards."""
        if self._loading is None or not self._loading.done() or self._loading.cancelled():
            return None
        error = self._loading.result()
        return None if error is Errors.NONE else error

    async def _load(self, start_offset: StartOffset, after: "LedSharePartition | None") -> Error:
        try:
            if after is not None:
                await after.give_way()
            found = await self._persister.read_state(self.key, self.leader_epoch)
            error = _told(found.error)
            if error is Errors.NONE and not self.dropped:
                offset = found.start_offset
                if offset == UNINITIALIZED_START_OFFSET:
                    offset = await start_offset(self._settings().offset_reset)
                self._window = SharePartition(offset, found.batches)
                self._state_epoch = found.state_epoch
                self._resume_letters(found.batches)
                self._stored_start = offset
            elif error is not Errors.NONE:
                event_log.info(
                    "a share partition could not be loaded; its members try again",
                    group=self.key.group_id,
                    topic_id=self.key.topic_id.hex(),
                    partition=self.key.partition,
                    detail=found.error.name,
                )
        except KafkaError as failed:
            error = failed.error
        except LogError as failed:
            error = Errors.of(failed.code)
        except ValueError as failed:
            event_log.error(
                "the stored state of a share partition is not usable; reset the group's offsets",
                group=self.key.group_id,
                topic_id=self.key.topic_id.hex(),
                partition=self.key.partition,
                detail=str(failed),
            )
            error = Errors.UNKNOWN_SERVER_ERROR
        except Exception:
            self._tell_bug()
            error = Errors.UNKNOWN_SERVER_ERROR
        if error is not Errors.NONE:
            self._when_fenced(self)
        asyncio.get_running_loop().call_soon(self.wake)  # once the task is done
        return error

    def _tell_bug(self) -> None:
        event_log.error(
            "bug: a share partition could not be loaded or stored; report the traceback",
            traceback=True,
            group=self.key.group_id,
            topic_id=self.key.topic_id.hex(),
            partition=self.key.partition,
        )

    @property
    def is_active(self) -> bool:
        """Whether the state is loaded and valid."""
        return self._window is not None and not self.dropped

    @property
    def window(self) -> SharePartition:
        """The in-flight window, with the group's present configs. Only while `is_active`."""
        assert self._window is not None
        settings = self._settings()
        if settings is not self._configured:
            self._configured = settings
            self._window.configure(
                delivery_count=settings.delivery_count,
                record_locks=settings.record_locks,
                lock_ms=settings.lock_ms,
                renew=settings.renew,
                dead_letters=settings.dead_letters,
            )
        return self._window

    def drop(self) -> None:
        """Stops using the state: another broker may lead, or the group is gone."""
        self.dropped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()

    def take_turn(self) -> bool:
        """Lets one fetch at a time read and acquire records; the others are woken when its turn is over."""
        if self._busy:
            self._contended = True
            return False
        self._busy = True
        return True

    def give_turn(self) -> None:
        """Ends a turn."""
        self._busy = False
        if self._contended:
            self._contended = False
            self.wake()

    def wake(self) -> None:
        """Wakes fetches that wait for records or for room."""
        for event in self.waiting:
            event.set()

    # ------------------------------------------------------------ acknowledgements

    def acknowledge(
        self, member: int, batches: Collection[Any]
    ) -> "tuple[int, str | None, asyncio.Future[Error] | None]":
        """Acknowledges records of a member. Returns an error code, its reason, and what to await for the
        error with which the change was stored; None when there is nothing to store.
        """
        change = self.window.acknowledge(member, batches, steady_ms())
        self.schedule()
        if change.error:
            return change.error, change.reason, None
        if not len(change) and not self._begins_below_the_start(batches):
            return 0, None, None
        return 0, None, self._store(change, pending=True)

    def _begins_below_the_start(self, batches: Collection[Any]) -> bool:
        """Whether records are acknowledged that are done already, and that is not stored yet: their locks
        have ended after the last delivery. Storing the start offset keeps them done.
        """
        start_offset = self.window.start_offset
        return self._stored_start < start_offset and any(
            self._stored_start <= each.last_offset and each.first_offset < start_offset for each in batches
        )

    def release(self, member: int) -> "asyncio.Future[Error] | None":
        """Gives back what a member holds."""
        if not self.is_active:
            return None
        change = self.window.release(member, steady_ms())
        return self._store(change, pending=True) if len(change) else None

    def _store(
        self, change: StateChange, *, pending: bool, of_copies: bool = False
    ) -> "asyncio.Future[Error]":
        loop = asyncio.get_running_loop()
        write = _Write(change, pending, loop.create_future(), of_copies)
        self._writes.append(write)
        if self._writing is None:
            self._writing = background.spawn(self._write(), "write of a share partition")
        return write.done

    async def _write(self) -> None:
        """Stores changes in order; those that came during a write go together in the next one."""
        together: list[_Write] = []
        try:
            while self._writes:
                together = [self._writes.popleft()]
                # Pending and copied records cannot change before they are stored: no record is named twice.
                while self._writes and _go_together(together[-1], self._writes[0]):
                    together.append(self._writes.popleft())
                self._stored(together, await self._write_together(together))
        finally:
            self._writing = None
            _refuse(together)

    async def _write_together(self, together: list[_Write]) -> Error:
        assert self._window is not None
        if self.dropped and not together[0].of_copies:
            return Errors.NOT_LEADER_OR_FOLLOWER
        batches = tuple(StateBatch(*batch) for write in together for batch in write.change.batches)
        written = WrittenState(
            self._state_epoch,
            self.leader_epoch,
            self._window.start_offset,
            self._window.delivery_complete_count,
            batches,
        )
        try:
            error = _told(await self._persister.write_state(self.key, written))
        except Exception:
            self._tell_bug()
            error = Errors.UNKNOWN_SERVER_ERROR
        if error is Errors.NONE:
            self._stored_start = written.start_offset
        return error

    def _stored(self, together: list[_Write], error: Error) -> None:
        assert self._window is not None
        now_ms = steady_ms()
        for write in together:
            if write.pending:
                self._window.complete(write.change, now_ms, stored=error is Errors.NONE)
            else:
                self._window.move_start()
            if error is Errors.NONE or not write.pending:
                self._copy(DeadLetter(*each) for each in write.change.dead_letters)
            if not write.done.done():
                write.done.set_result(error)
        if error in _FENCING and not self.dropped:
            self._when_fenced(self)
        self.schedule()
        self.wake()

    # ------------------------------------------------------------ dead letters

    def _resume_letters(self, batches: Iterable[StateBatch]) -> None:
        """Continues the last leader's copies. Letters may come twice."""
        limit = self._settings().delivery_count
        self._copy(
            DeadLetter(each.first_offset, each.last_offset, each.delivery_count, each.delivery_count < limit)
            for each in batches
            if each.delivery_state == _ARCHIVING
        )

    def _copy(self, letters: Iterable[DeadLetter]) -> None:
        """Begins to copy records to the dead-letter topic; they are archived afterwards."""
        self._letters += letters
        if self._letters and self._copying is None and not self._gives_way:
            self._copying = background.spawn(self._copy_all(), "copies of records of a share partition")

    async def _copy_all(self) -> None:
        """Copies records in order; those that came during a write go together in the next one. It goes
        on when the last member of the group has gone, and with it the use of the state.
        """
        try:
            while self._letters:
                letters, self._letters = self._letters, []
                assert self.dead_letters is not None, "the group's configs allow it"
                try:
                    if not await self.dead_letters.write(self.key, letters):
                        return  # they are stored as on the way
                except Exception:
                    self._tell_bug()  # and archives them: the start offset would never move again
                stored = [await self._copied(each) for each in letters]
                await asyncio.wait(stored)
        finally:
            self._copying = None

    async def _copied(self, letter: DeadLetter) -> "asyncio.Future[Error]":
        while True:
            try:
                change = self.window.copied(letter.first, letter.last, letter.delivery_count)
            except MemoryError:
                await asyncio.sleep(_NO_MEMORY_S)  # the records stay as they are until then
                continue
            return self._store(change, pending=False, of_copies=True)

    # ------------------------------------------------------------ locks

    def schedule(self) -> None:
        """Sets the timer for the next end of a lock. Call it after records were acquired."""
        assert self._window is not None
        if self.dropped or self._window.next_deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due_s = max(self._window.next_deadline_ms / 1000, loop.time()) + _LOCKS_TOGETHER_S
        if self._timer is not None:
            # Locks may be shorter now, or a change of records whose lock is over could not be stored.
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due_s, self._expire)

    def _expire(self) -> None:
        assert self._window is not None
        self._timer = None
        change = self.window.expire(steady_ms())
        if len(change):
            self._store(change, pending=False)
            self.wake()
        self.schedule()

    async def stop(self) -> None:
        """Stops what runs for the partition."""
        self.drop()
        tasks = (self._loading, self._writing, self._copying)
        running = [task for task in tasks if task is not None and not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        _refuse(self._writes)


def _go_together(one: _Write, other: _Write) -> bool:
    return (one.pending and other.pending) or (one.of_copies and other.of_copies)


def _refuse(writes: Iterable[_Write]) -> None:
    """Answers writes that were given up."""
    for write in writes:
        if not write.done.done():
            write.done.set_result(Errors.NOT_LEADER_OR_FOLLOWER)
