"""Runs one registry's state: an image of its topic, kept by one elected writer and followed by all.

Everything here belongs to one event loop. What decides is pure: store/elector.py (who leads),
store/leadership.py (when the leader may write) and the operations, which decide against the image. Two
threads do the I/O: store/store_thread.py and store/topic_reader.py."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.registry.decision import Decision
from bowstring.registry.refusals import schema_too_large, store_failed, timed_out
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage, Supposed
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.schema_work import Allowance, Answer, Deferred, SchemaWorker, Work, attempt
from bowstring.registry.store.connections import Connections
from bowstring.registry.store.elector import Elected, Elector, GroupTimes
from bowstring.registry.store.leadership import Leadership, Refusal, Stage, TopicRecord
from bowstring.registry.store.member_identity import SCHEMES, MemberIdentity
from bowstring.registry.store.store_target import StoreTarget
from bowstring.registry.store.topic_reader import ReadRecords
from bowstring.registry.topic_records import NOOP, TopicKey, encode_key, encode_max_ids

_log = logging.getLogger("bowstring.registry")
_NOTHING = Decision((), None)

TOO_LARGE = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")

# Records that are applied before the loop serves others.
APPLIED_AT_ONCE = 500
WAITING_MAX = 10_000
# Of the records of several writes; one write may have more. Half of what brokers take in a batch.
BATCH_BYTES_MAX = 512 << 10
BATCH_GROWTH = 16  # a batch may be a sixteenth larger than the one before, after one that was too large
RECORD_BYTES = 32  # besides key and value
DECIDED_AT_ONCE_S = 0.01
LEASE_LOOK_S = 0.1
STOP_TIMEOUT_S = 5.0
CATCH_UP_TIMEOUT_S = 10.0


class NotLeader(Exception):
    """This registry does not lead: forward the request.

    Attributes:
        leader_url: where the leader serves; None while the group has none.
    """

    def __init__(self, leader_url: str | None):
        super().__init__(
            f"the leader is {leader_url}"
            if leader_url
            else "the group of registries has no leader at present"
        )
        self.leader_url = leader_url


class NodeSettings(NamedTuple):
    """Settings of a node; times are in seconds.

    Attributes:
        target: the cluster, the topic and the group.
        url: where other registries reach this one: `http://host:port`.
        eligible: it may become leader.
        replication_factor: of a topic that it creates.
        times: of the group.
        init_timeout_s: how long `start` waits for brokers, and for the topic to be read.
        write_timeout_s: how long a write waits for a leader, and for its records.
        takeover_wait_s: how long a leader waits whose predecessor is not fenced (see store/leadership.py).
    """

    target: StoreTarget
    url: str
    eligible: bool = True
    replication_factor: int = 3
    times: GroupTimes = GroupTimes()
    init_timeout_s: float = 60.0
    write_timeout_s: float = 10.0
    takeover_wait_s: float = 10.0


class _Write:
    """A write that waits for its decision, or for the records that this follows from to be committed."""

    __slots__ = ("allowance", "answer", "decide", "error", "future")

    def __init__(self, decide: Callable[[RegistryImage], Decision], future: asyncio.Future[Any]):
        self.decide = decide
        self.future = future
        self.answer: Any = None
        self.error: Exception | None = None
        self.allowance = Allowance()

    def settle(self) -> None:
        """Answers the caller with the decision."""
        if self.error is not None:
            _fail(self, self.error)
        elif not self.future.done():
            self.future.set_result(self.answer)


class _Batch:
    """Writes that were decided one after the other, each with the records of those before it in the image.

    Attributes:
        writes: in order; the first has records. Those whose decision has none or is an error are here, too,
            as it may follow from the records of another.
        decided: how many of them have records.
        records: of all of them.
        added: for each record the version that it adds; None if it is another record.
        size: of the records, bytes.
        timestamp_ms: of the records.
        end: every record is below this offset, once they are committed; 0 before.
    """

    __slots__ = ("added", "decided", "end", "records", "size", "timestamp_ms", "writes")

    def __init__(self) -> None:
        self.writes: list[_Write] = []
        self.decided = 0
        self.records: list[TopicRecord] = []
        self.added: list[SchemaRecord | None] = []
        self.size = 0
        self.timestamp_ms = 0
        self.end = 0

    def take(self, write: _Write, decision: Decision, bytes_max: int) -> bool:
        """Adds a write that is decided; returns whether there is room for it. The first may have any size."""
        size = sum(RECORD_BYTES + len(key) + len(value or b"") for key, value in decision.records)
        if size and self.records and self.size + size > bytes_max:
            return False
        write.answer = decision.answer
        self.writes.append(write)
        self.decided += bool(decision.records)
        self.records += decision.records
        self.added += [decision.added] if decision.added is not None else [None] * len(decision.records)
        self.size += size
        return True


class RegistryNode:
    """One registry's state. Belongs to the event loop that calls `start`.

    Args:
        settings: where it runs.
        new_image: makes an empty image.
        connections: to the cluster of the settings.

    Attributes:
        image: everything that is committed, as far as it has been read. Reading the topic from its beginning
            again replaces it.
        position: every record below this offset is in the image.
        leader_changed: is called on the loop with the URL of another leader, or None.

    Raises:
        ConfigError: the settings are wrong.
    """

    def __init__(
        self,
        settings: NodeSettings,
        new_image: Callable[[], RegistryImage] = RegistryImage,
        connections: Connections | None = None,
    ):
        self.image = new_image()
        self.position = 0
        self.leader_changed: Callable[[str | None], None] = _ignore
        self._settings = settings
        self._new_image = new_image
        self._worker = SchemaWorker()
        self._connections = connections or Connections(settings.target)
        self._identity = identity_of(settings.url, eligible=settings.eligible)
        self._leadership = Leadership(settings.takeover_wait_s)
        self._elected = Elected()
        self._claim_error: ClientError | None = None
        self._waiting: deque[_Write] = deque()
        self._deferred: dict[_Write, asyncio.Task[None]] = {}  # they wait for work on schemas
        self._writing: _Batch | None = None
        self._batch_bytes_max = BATCH_BYTES_MAX
        self._reading = 0
        self._position_of_read = 0
        self._fresh: RegistryImage | None = None  # takes the place of the image once it is complete
        self._read: deque[ReadRecords] = deque()
        self._applied_in_read = 0
        self._loaded: asyncio.Future[None] | None = None
        self._watchers: list[tuple[int, asyncio.Future[bool]]] = []
        self._ends: list[asyncio.Future[int]] = []
        self._ends_asked = False
        self._timer: asyncio.TimerHandle | None = None
        self._advances = False  # `_advance` runs soon
        self._stopping = False

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Creates or checks the topic, reads it and joins the group; returns once the topic has been read.

        The election may take longer; writes wait for it.

        Raises:
            UnfitTopicError: the topic cannot keep schemas.
            ClientError: there was no broker within init_timeout_s, or access is denied.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        self._loop = loop
        began = self._connections.now()
        await self._connections.prepare(settings.replication_factor, settings.init_timeout_s)
        self._loaded = loop.create_future()
        elector = Elector(settings.target.group_id, self._identity, settings.times)
        self._thread = self._connections.open_store(elector, self, self._post)
        self._reader = self._connections.open_reader(self._deliver, self._post)
        self._reader.start()
        self._thread.start()
        left_s = settings.init_timeout_s - (self._connections.now() - began)
        try:
            await asyncio.wait_for(asyncio.shield(self._loaded), max(1.0, left_s))
        except TimeoutError:
            await self.stop()
            cause = self._reader.trouble
            raise ClientError(
                f"topic {settings.target.topic!r} was not read within {settings.init_timeout_s:g} s; "
                + (str(cause) if cause is not None else "check the brokers, or raise the timeout")
            ) from None

    async def stop(self) -> None:
        """Finishes the writes in flight, leaves the group so that another leads at once, and ends."""
        if self._stopping or self._loaded is None:
            return
        self._stopping = True
        self._fail_waiting(NotLeader(None))
        self._worker.close()
        for _, watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(False)
        writing = self._writing.writes if self._writing is not None else []
        left = [write.future for write in writing if not write.future.done()]
        if left:
            await asyncio.wait(left, timeout=STOP_TIMEOUT_S)
        self._leadership.depose()
        self._fail_writing(_unknown_outcome())
        if self._timer is not None:
            self._timer.cancel()
        await self._connections.close(self._thread, self._reader)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function on the loop. In any thread."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            return  # the loop is closed

    # ------------------------------------------------------------ facts

    @property
    def is_leader(self) -> bool:
        """Whether writes are decided here: it was elected, its predecessors are fenced, its image is
        complete."""
        return (
            self._leadership.stage is Stage.LEADING and self._connections.now() < self._thread.lease_until()
        )

    @property
    def leader_url(self) -> str | None:
        """Where the elected leader serves, which may be this registry; None without one."""
        return self._elected.url

    @property
    def is_loaded(self) -> bool:
        """Whether the image has what the topic had when the registry started."""
        return self._loaded is not None and self._loaded.done()

    # ------------------------------------------------------------ reads

    async def read(self, operation: Callable[[RegistryImage], Answer]) -> Answer:
        """Returns what an operation makes of the image; what takes long is done beside the loop.

        Args:
            operation: is called on the loop, again after work on large schemas. What it raises is raised.

        Raises:
            RegistryError: 50002: the schemas take too long.
        """
        return await self._worker.run(lambda: self.image, operation)

    # ------------------------------------------------------------ writes

    async def write(self, decide: Callable[[RegistryImage], Decision]) -> Any:
        """Decides against an image with everything written before, commits the records and returns the
        answer.

        Args:
            decide: is called on the loop, between other decisions. What it raises is raised here.

        Raises:
            NotLeader: another registry leads, or none does; nothing was written.
            RegistryError: 50002: the records were not committed in time, and may be later; 50001: the broker
                refused them, or does not let this registry lead; 42209: they are too large.
        """
        if self._stopping or self._leads_elsewhere():
            raise NotLeader(None if self._stopping else self._elected.url)
        if len(self._waiting) + len(self._deferred) >= WAITING_MAX:
            raise store_failed(f"{WAITING_MAX} writes wait for the broker; repeat this one later.")
        write = _Write(decide, self._loop.create_future())
        self._wait(write)
        timer = self._loop.call_later(self._settings.write_timeout_s, self._end_late, write)
        try:
            return await write.future
        finally:
            timer.cancel()

    def _wait(self, write: _Write) -> None:
        self._waiting.append(write)
        if not self._advances:
            # Not at once: requests that came in together share a batch.
            self._advances = True
            self._loop.call_soon(self._advance)

    def _fail_waiting(self, error: Exception) -> None:
        """Fails the writes that were not appended."""
        for write in (*self._waiting, *self._deferred):
            _fail(write, error)
        self._waiting.clear()

    def _leads_elsewhere(self) -> bool:
        return not self._elected.leads and self._elected.url is not None

    def _end_late(self, write: _Write) -> None:
        """Ends a write whose time is over."""
        _fail(write, self._late(write))

    def _late(self, write: _Write) -> Exception:
        if write in self._deferred:
            return timed_out("The schemas take too long to parse and to compare; nothing was written.")
        if write not in self._waiting:
            return _unknown_outcome()
        self._waiting.remove(write)
        if self._elected.leads and self._claim_error is not None:
            return store_failed(f"This registry cannot lead: {self._claim_error}")
        if self._elected.leads:
            return timed_out("The broker did not answer in time; nothing was written.")
        return NotLeader(self._elected.url)

    def _advance(self) -> None:
        """Takes the next steps: of a takeover, or of the writes that wait."""
        self._advances = False
        if self._fresh is not None or not self.is_loaded:
            return  # a takeover needs the image
        now = self._connections.now()
        command = self._leadership.command(now, self._mark, self._connections.timestamp_ms())
        if command is not None:
            self._thread.run_command(command)
        elif self._waiting and self._leadership.can_append and self._writing is None:
            self._decide(now)
        self._look_later(now)

    def _look_later(self, now: float) -> None:
        due_at = self._leadership.due_at
        if self._waiting and self._leadership.can_append and self._writing is None:
            due_at = min(due_at, now + LEASE_LOOK_S)  # the lease is over; a heartbeat may renew it
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_at != float("inf") and not self._stopping:
            self._timer = self._loop.call_later(max(0.0, due_at - now), self._advance)

    def _decide(self, now: float) -> None:
        """Decides writes that wait, and appends their records in one batch."""
        if now >= self._thread.lease_until():
            return
        batch = self._decided(now + DECIDED_AT_ONCE_S)
        if not batch.records:
            if self._waiting:
                self._loop.call_soon(self._advance)
            return
        append = self._leadership.append(batch.records, now, batch.timestamp_ms)
        if append is None:  # the leader claims anew first, and then decides again
            self._wait_again(batch)
            self._advance()
            return
        self._writing = batch
        self._thread.run_command(append)

    def _decided(self, until: float) -> _Batch:
        """Decides writes until a batch is full, or the time is over; the image is as before.

        Nothing but decisions looks at the image meanwhile, as this is one step of the loop. A write that
        only adds a version is supposed to be committed by those after it; any other one ends the batch.
        """
        image, batch = self.image, _Batch()
        batch.timestamp_ms = self._connections.timestamp_ms()
        supposed: list[Supposed] = []
        try:
            while self._waiting and self._connections.now() <= until:
                write = self._waiting.popleft()
                if write.future.done():
                    continue  # its caller is gone
                write.answer = write.error = None
                try:
                    decision = attempt(image, write.decide, write.allowance)
                except Deferred as deferred:
                    self._defer(write, deferred.work)
                    continue
                except Exception as error:
                    write.error = error
                    decision = _NOTHING
                if not decision.records and not batch.records:
                    write.answer = decision.answer
                    write.settle()
                    continue
                if not batch.take(write, decision, self._batch_bytes_max):
                    self._waiting.appendleft(write)
                    break
                if decision.records:
                    if decision.added is None:
                        break
                    decision.added.timestamp_ms = batch.timestamp_ms  # answers to those after it have it
                    found = image.suppose(decision.added)
                    if found is None:
                        break
                    supposed.append(found)
        finally:
            for each in reversed(supposed):
                image.retract(each)
        return batch

    def _defer(self, write: _Write, work: Work) -> None:
        """Has work done for a write, which waits again then."""
        task = self._loop.create_task(self._do(write, work))
        self._deferred[write] = task
        write.future.add_done_callback(lambda _: task.cancel())

    async def _do(self, write: _Write, work: Work) -> None:
        try:
            until = time.monotonic() + self._settings.write_timeout_s
            await self._worker.do(work, write.allowance, until)
        except Exception as error:
            _fail(write, error)
        finally:
            del self._deferred[write]
        if not write.future.done():
            self._wait(write)

    def _wait_again(self, batch: _Batch) -> None:
        """Puts writes back whose records were not appended: they are decided again."""
        self._waiting.extendleft(write for write in reversed(batch.writes) if not write.future.done())

    # ------------------------------------------------------------ outcomes, from the store's thread

    def elected(self, elected: Elected) -> None:
        """See StoreEvents."""
        if self._stopping:
            return
        before, self._elected = self._elected, elected
        if elected.leads:
            self._leadership.elect(self._connections.now(), after_foreign=elected.after_foreign)
        elif self._leadership.is_elected:
            self._depose()
        if elected.url != before.url:
            _log.info("the leader of the registries is %s", elected.url or "unknown")
            try:
                self.leader_changed(elected.url)
            except Exception:
                # What follows must not depend on it: writes wait for the election.
                _log.exception("the change of the leader was not passed on")
        if self._leads_elsewhere():
            self._fail_waiting(NotLeader(elected.url))
        self._advance()

    def _depose(self) -> None:
        self._leadership.depose()
        self._thread.abandon()
        self._fail_writing(_unknown_outcome())

    def claimed(self, term: int, producer_id: int, epoch: int) -> None:
        """See StoreEvents."""
        self._claim_error = None
        self._leadership.claimed(term, producer_id, epoch, self._connections.now())
        self._advance()

    def claim_failed(self, term: int, error: ClientError) -> None:
        """See StoreEvents."""
        self._claim_error = error
        self._leadership.claim_failed(term, self._connections.now())
        self._advance()

    def appended(self, term: int, base_offset: int) -> None:
        """See StoreEvents."""
        if not self._leadership.appended(term, base_offset, self._connections.now()):
            return
        batch = self._writing
        if batch is not None:
            batch.end = base_offset + len(batch.records)
            # The topic may take larger batches by now.
            larger = self._batch_bytes_max + self._batch_bytes_max // BATCH_GROWTH + RECORD_BYTES
            self._batch_bytes_max = min(BATCH_BYTES_MAX, larger)
            if self.position == base_offset and self._fresh is None:
                self._apply_batch(batch, base_offset)
                self._moved(batch.end)
            self._answer_writing()
        else:
            self._catch_up_leader()
        self._advance()

    def refused(self, term: int, refusal: Refusal, error: ClientError) -> None:
        """See StoreEvents."""
        if not self._leadership.refused(term, refusal, self._connections.now()):
            return
        if refusal is Refusal.FENCED:
            self._fail_writing(NotLeader(None))
        elif refusal is Refusal.REFUSED:
            self._refused_batch(error)
        else:
            self._fail_writing(_unknown_outcome())
        if refusal in (Refusal.FENCED, Refusal.FENCED_LATE):
            _log.warning(
                "another registry writes to topic %r; the group elects again", self._settings.target.topic
            )
        self._advance()

    def recreated(self) -> None:
        """See StoreEvents."""
        self._reader.begin_again()

    def _refused_batch(self, error: ClientError) -> None:
        """Fails the write that the broker refuses; several that are too large together are decided again."""
        batch = self._writing
        if batch is None or getattr(error, "name", "") not in TOO_LARGE:
            self._fail_writing(_refused_error(error))
            return
        self._writing = None
        if batch.decided == 1:
            _fail(batch.writes[0], _refused_error(error))
        else:
            self._batch_bytes_max = batch.size // 2
        self._wait_again(batch)

    def _apply_batch(self, batch: _Batch, base_offset: int) -> None:
        """Brings the records of the leader into its image, before it reads them."""
        for offset, ((key, value), added) in enumerate(
            zip(batch.records, batch.added, strict=True), base_offset
        ):
            # JSON may bring metadata and rules into another form.
            if added is not None and added.metadata is None and added.rule_set is None:
                self.image.apply_added(added, offset, batch.timestamp_ms)
            else:
                self._apply(self.image, key, value, offset, batch.timestamp_ms)

    def _answer_writing(self) -> None:
        """Answers the writes in flight once the image has their records."""
        batch = self._writing
        if batch is None or not batch.end or self.position < batch.end:
            return
        self._writing = None
        for write in batch.writes:
            write.settle()

    def _fail_writing(self, error: Exception) -> None:
        batch, self._writing = self._writing, None
        for write in batch.writes if batch is not None else ():
            _fail(write, error)

    def _mark(self) -> TopicRecord:
        """Returns the record that marks a tenure."""
        highest = self.image.max_ids()
        return encode_key(TopicKey(NOOP)), encode_max_ids(highest) if highest else None

    def _catch_up_leader(self) -> None:
        if self._fresh is None and self._leadership.caught_up(self.position, self._mark):
            _log.info(
                "this registry leads; topic %r is read up to %d", self._settings.target.topic, self.position
            )

    # ------------------------------------------------------------ reading

    async def catch_up(self, position: int | None = None) -> bool:
        """Waits until the image has what is committed now.

        Args:
            position: the leader's position after a write, if it is known; None looks for the end of the
                topic.

        Returns:
            False if that took too long.
        """
        deadline = self._connections.now() + CATCH_UP_TIMEOUT_S
        if position is None:
            try:
                position = await asyncio.wait_for(self._end(), CATCH_UP_TIMEOUT_S)
            except (ClientError, TimeoutError):
                return False
        if self.position >= position:
            return True
        watcher: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._watchers.append((position, watcher))
        try:
            return await asyncio.wait_for(watcher, max(0.0, deadline - self._connections.now()))
        except TimeoutError:
            return False
        finally:
            self._watchers = [each for each in self._watchers if each[1] is not watcher]

    async def _end(self) -> int:
        """Returns the end of the topic."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ends.append(future)
        if not self._ends_asked:
            self._ask_ends()
        return await future

    def _ask_ends(self) -> None:
        """Looks for the end once for all who wait; those who come later need a later look."""
        asked, self._ends = self._ends, []
        self._ends_asked = bool(asked)
        if asked:
            self._thread.find_end(functools.partial(self._found_end, asked))

    def _found_end(self, asked: list[asyncio.Future[int]], end: int) -> None:
        for future in asked:
            if not future.done():
                future.set_result(end)
        self._ask_ends()

    def _deliver(self, read: ReadRecords) -> None:
        """Takes records from the reader."""
        self._read.append(read)
        if len(self._read) == 1:
            self._apply_read()

    def _apply_read(self) -> None:
        """Applies a slice of what was read, and goes on later if there is more."""
        if self._stopping:
            self._read.clear()
            return
        read = self._read[0]
        if read.reading != self._reading:
            self._begin_reading(read)
        image = self.image if self._fresh is None else self._fresh
        start, self._applied_in_read = self._applied_in_read, self._applied_in_read + APPLIED_AT_ONCE
        for record in read.records[start : self._applied_in_read]:
            if record.offset >= self._position_of_read:
                self._apply(image, record.key, record.value, record.offset, record.timestamp)
                self._position_of_read = record.offset + 1
        if self._applied_in_read < len(read.records):
            self._loop.call_soon(self._apply_read)
            return
        self._finish_read(read)
        if self._read:
            self._loop.call_soon(self._apply_read)

    def _begin_reading(self, read: ReadRecords) -> None:
        self._reading = read.reading
        self._fresh = self._new_image()
        self._position_of_read = 0
        if self._leadership.is_elected:
            self._fail_writing(_unknown_outcome())
            self._thread.abandon()
            self._leadership.restart(self._connections.now())

    def _finish_read(self, read: ReadRecords) -> None:
        self._read.popleft()
        self._applied_in_read = 0
        self._reader.done(known=self._fresh is None and read.position <= self.position)
        self._position_of_read = max(self._position_of_read, read.position)
        if self._fresh is not None:
            if self._position_of_read < read.end:
                return
            self.image, self._fresh = self._fresh, None
            self.position = 0
            if self._loaded is not None and not self._loaded.done():
                self._loaded.set_result(None)
        self._moved(self._position_of_read)
        self._answer_writing()
        self._catch_up_leader()
        self._advance()

    def _moved(self, position: int) -> None:
        self.position = max(self.position, position)
        self._position_of_read = self.position
        for wanted, watcher in self._watchers:
            if self.position >= wanted and not watcher.done():
                watcher.set_result(True)

    def _apply(
        self, image: RegistryImage, key: bytes | None, value: bytes | None, offset: int, timestamp_ms: int
    ) -> None:
        try:
            image.apply(key or b"", value, offset, timestamp_ms)
        except Exception:
            # One record must not keep the others from the image.
            _log.exception(
                "the record at offset %d of topic %r is left out", offset, self._settings.target.topic
            )


def _ignore(url: str | None) -> None:
    """Takes a change that nobody asked for."""


def identity_of(url: str, *, eligible: bool = True) -> MemberIdentity:
    """Returns the identity of a registry at a URL.

    Raises:
        ConfigError: the URL is not `http://host:port`, or https.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in SCHEMES or not parts.hostname or not port:
        raise ConfigError(f"the URL of a registry must be http://host:port or https://host:port, not {url!r}")
    return MemberIdentity(parts.scheme, parts.hostname, port, eligible)


def _fail(write: _Write, error: Exception) -> None:
    if not write.future.done():
        write.future.set_exception(error)


def _unknown_outcome() -> RegistryError:
    return timed_out(
        "The broker did not confirm the write in time: it may be done or not. Look, or repeat the request."
    )


def _refused_error(error: ClientError) -> RegistryError:
    if getattr(error, "name", "") in TOO_LARGE:
        return schema_too_large("The schema is larger than max.message.bytes of the registry's topic.")
    return store_failed(f"The broker refused the write: {error}")
