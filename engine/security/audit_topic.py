"""Writes decisions of access control to a topic, as JSON records with the principal as key."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from bowstring.engine import background, event_log
from bowstring.engine.security.audit_records import decision_json, dropped_json
from bowstring.engine.security.decided import Decided
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.messages import ApiKeys

QUEUE_MAX: Final = 10_000
"""Most decisions that wait to be written; more are dropped and counted."""
QUEUE_BYTES_MAX: Final = 16 << 20
"""About as many bytes of memory do they take at most."""
_AT_ONCE: Final = 200
_LINGER_S: Final = 0.05
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 5.0
_DRAIN_S: Final = 2.0
_DROPS_LOGGED_EVERY_S: Final = 60.0
_PASSING_S: Final = 5.0
_ENTRY_BYTES: Final = 300


class AuditRecord(NamedTuple):
    """A record of the topic."""

    key: bytes | None
    value: bytes
    time_ms: int


class AuditWriteError(Exception):
    """The topic cannot be written now; the message says why."""


class AuditWriter(Protocol):
    """Writes records to the topic."""

    async def partitions(self) -> int:
        """Returns how many partitions the topic has; creates it when it is missing.

        Raises:
            AuditWriteError: There is none.
        """

    def partition_of(self, key: str, partitions: int) -> int:
        """Returns the partition of a key."""

    async def write(self, partition: int, records: Sequence[AuditRecord]) -> int:
        """Writes records; returns how many of the first ones are committed. 0: the topic does not accept a
        record as large as the first one.

        Raises:
            AuditWriteError: Perhaps none is written.
        """

    def close(self) -> None:
        """Closes what it has open."""


class _Entry(NamedTuple):
    """A decision that waits, or, without one, a number of dropped decisions."""

    at_s: float
    decided: Decided | None
    dropped: int
    size_bytes: int

    def record(self, node_id: int) -> AuditRecord:
        if self.decided is None:
            key, value = None, dropped_json(self.at_s, self.dropped, node=node_id)
        else:
            key = self.decided.principal.encode("utf-8", "backslashreplace")
            value = decision_json(self.at_s, self.decided, node=node_id)
        return AuditRecord(key, value.encode("utf-8", "backslashreplace"), int(self.at_s * 1000))


class AuditTopic:
    """The audit topic. Used on the control loop only.

    Decisions wait while the topic cannot be written; those beyond QUEUE_MAX and QUEUE_BYTES_MAX are dropped,
    counted, logged, and named by a record with ``dropped``. A record whose answer is lost is written again,
    so a decision can be in the topic twice.

    What this node's audit writes to the topic through another broker is a decision there, too. It is left
    out, or each record would make another one: Produce to this topic by a principal that acts as a broker.

    Args:
        name: The topic.
        node_id: This node, which each record names.
        acts_as_broker: Whether a principal may do CLUSTER_ACTION from a host.

    Attributes:
        name: The topic.
        dropped: Decisions that were not written.
        written: Decisions that were.
        passing_s: A failure is logged after this time, because leaders move and clusters start.
    """

    def __init__(self, name: str, node_id: int, acts_as_broker: Callable[[str, str], bool]) -> None:
        self.name = name
        self.dropped = 0
        self.written = 0
        self.passing_s = _PASSING_S
        self._node_id = node_id
        self._acts_as_broker = acts_as_broker
        self._new: deque[_Entry] = deque()
        self._lanes: dict[int, deque[_Entry]] = {}
        self._lane_count = 0
        self._waiting = 0
        self._waiting_bytes = 0
        self._untold = 0  # of the dropped ones
        self._has_drops_waiting = False  # an entry with dropped ones
        self._drops_logged_s = -_DROPS_LOGGED_EVERY_S
        self._failing_since_s: float | None = None
        self._is_failure_told = False
        self._last_failure = ""
        self._due = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writer: AuditWriter | None = None

    # ------------------------------------------------------------ decisions

    def note(self, decided: Decided, at_s: float | None = None) -> None:
        """Queues a decision.

        Args:
            at_s: When it was made, in seconds since the epoch; None: now.
        """
        if self._is_own_write(decided):
            return
        size = _ENTRY_BYTES + 2 * (len(decided.principal) + len(decided.name))
        if self._waiting >= QUEUE_MAX or self._waiting_bytes + size > QUEUE_BYTES_MAX:
            self.note_lost(1)
            return
        self._add(_Entry(time.time() if at_s is None else at_s, decided, 0, size))

    def note_lost(self, count: int) -> None:
        """Counts decisions that are dropped, or were lost before they came here."""
        self.dropped += count
        self._untold += count
        self._due.set()
        now_s = time.monotonic()
        if now_s - self._drops_logged_s >= _DROPS_LOGGED_EVERY_S:
            self._drops_logged_s = now_s
            event_log.error(
                "decisions of access control are missing in the audit topic, because more were made than "
                "could be written; this is logged once a minute",
                topic=self.name,
                dropped=self.dropped,
            )

    def _is_own_write(self, decided: Decided) -> bool:
        return (
            decided.name == self.name
            and decided.allowed
            and decided.api == ApiKeys.PRODUCE
            and decided.operation == AclOperation.WRITE
            and decided.resource_type == AclResourceType.TOPIC
            and self._acts_as_broker(decided.principal, decided.host)
        )

    def _add(self, entry: _Entry) -> None:
        self._new.append(entry)
        self._waiting += 1
        self._drained.clear()
        self._waiting_bytes += entry.size_bytes
        self._due.set()

    # ------------------------------------------------------------ life

    def start(self, writer: AuditWriter) -> None:
        """Begins to write what waits, and what comes. Call on the control loop."""
        self._writer = writer
        self._task = background.keep_running(lambda: self._run(writer), "audit topic")

    @property
    def is_failing(self) -> bool:
        """Whether attempts to write have failed for some time."""
        return self._is_failure_told

    async def drain(self) -> None:
        """Waits a short time until what waits is written, unless that fails for some time: call it while this
        node still leads its partitions.
        """
        if self._task is None or self.is_failing:
            return
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._drained.wait()
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """Writes what waits, for at most a few seconds."""
        self._stopping.set()
        self._due.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_STOP_TIMEOUT_S)
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._writer is not None:
            self._writer.close()
        if self._waiting:
            self.dropped += self._waiting
            event_log.error(
                "the node stops before all decisions of access control are in the audit topic",
                topic=self.name,
                missing=self._waiting,
                detail=self._last_failure,
            )

    async def _run(self, writer: AuditWriter) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._due.wait()
            await self._rest(_LINGER_S)  # more comes in the same batches
            if await self._write_round(writer):
                pause_s = _FIRST_PAUSE_S
                if self._waiting or self._untold:
                    continue
                self._due.clear()
            elif not self._stopping.is_set():
                await self._rest(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            if self._stopping.is_set():
                return

    async def _rest(self, seconds: float) -> None:
        if not self._stopping.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    # ------------------------------------------------------------ writing

    async def _write_round(self, writer: AuditWriter) -> bool:
        """Writes a batch to each partition that has something to write; returns whether nothing failed."""
        # One at a time: they do not count against QUEUE_MAX, and the topic may be unavailable for weeks.
        if self._untold and not self._has_drops_waiting:
            count, self._untold = self._untold, 0
            self._has_drops_waiting = True
            self._add(_Entry(time.time(), None, count, _ENTRY_BYTES))
        try:
            self._distribute(writer, await writer.partitions())
        except AuditWriteError as error:
            return self._note_failure(str(error))
        outcomes = await asyncio.gather(
            *(self._write_lane(writer, partition) for partition, lane in self._lanes.items() if lane),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, AuditWriteError):
                return self._note_failure(str(outcome))
            if isinstance(outcome, BaseException):
                raise outcome
        if self._is_failure_told:
            event_log.info("the audit topic is written again", topic=self.name, dropped=self.dropped)
        self._failing_since_s, self._is_failure_told = None, False
        return True

    def _distribute(self, writer: AuditWriter, partitions: int) -> None:
        if partitions != self._lane_count:  # it has grown, or was created again
            entries = [entry for lane in self._lanes.values() for entry in lane]
            self._new = deque([*sorted(entries, key=lambda entry: entry.at_s), *self._new])
            self._lanes = {partition: deque() for partition in range(partitions)}
            self._lane_count = partitions
        while self._new:
            entry = self._new.popleft()
            key = entry.decided.principal if entry.decided is not None else ""
            self._lanes[writer.partition_of(key, partitions)].append(entry)

    async def _write_lane(self, writer: AuditWriter, partition: int) -> None:
        lane = self._lanes[partition]
        records = [lane[i].record(self._node_id) for i in range(min(len(lane), _AT_ONCE))]
        written = await writer.write(partition, records)
        for _ in range(written):
            self._finish(lane.popleft(), is_written=True)
        if not written:
            self._finish(lane.popleft(), is_written=False)
            event_log.error(
                "a decision of access control is larger than the audit topic accepts, and is dropped; raise "
                "its max.message.bytes",
                topic=self.name,
                size_bytes=len(records[0].value),
            )

    def _finish(self, entry: _Entry, *, is_written: bool) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._drained.set()
        self._waiting_bytes -= entry.size_bytes
        if entry.decided is None:
            self._has_drops_waiting = False
            return
        if is_written:
            self.written += 1
        else:
            self.dropped += 1
            self._untold += 1

    def _note_failure(self, detail: str) -> bool:
        now_s = time.monotonic()
        self._last_failure = detail
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if not self._is_failure_told and now_s - self._failing_since_s >= self.passing_s:
            self._is_failure_told = True
            event_log.error(
                "the audit topic cannot be written, so decisions wait, and are dropped if it lasts",
                topic=self.name,
                detail=detail,
            )
        return False
