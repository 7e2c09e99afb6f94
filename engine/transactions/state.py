"""Holds the state of one shard and collects its effects for the shell."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bowstring.engine.coordinators.effects import AppendRecords, Note, Record, Respond
from bowstring.engine.transactions.config import TransactionConfig
from bowstring.engine.transactions.effects import CompleteLater, Effect, Ended, SendMarkers
from bowstring.engine.transactions.records import transaction_record
from bowstring.engine.transactions.transaction import TopicPartition, Transaction
from bowstring.protocol.errors import Error, Errors

_APPEND_ERRORS = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
}


def append_error(error: Error) -> Error:
    """Returns the error that a producer gets for a failed write of ``__transaction_state``; NONE stays NONE.

    Every error is retriable: a producer would take UNKNOWN_SERVER_ERROR for the end of its transaction.
    """
    return _APPEND_ERRORS.get(error, Errors.COORDINATOR_NOT_AVAILABLE if error else error)


class NewProducerIdNeededError(Exception):
    """The event needs a producer id that was never used; repeat it with one. Nothing has changed."""


@dataclass(slots=True)
class Entry:
    """A transactional id.

    Attributes:
        committed: What the log says below the high watermark.
        pending: What it becomes when a write is committed, or when the markers are written; None when it
            rests.
        unmarked: Partitions of a decided transaction that lack their marker.
        is_writing: A record is on its way to the log.
    """

    committed: Transaction
    pending: Transaction | None = None
    unmarked: set[TopicPartition] = field(default_factory=set)
    is_writing: bool = False


class Deadline(NamedTuple):
    """When the transaction that began at `started_ms`, a time of day, has passed its timeout: by the steady
    clock.
    """

    started_ms: int
    steady_ms: int


@dataclass(slots=True)
class ShardState:
    """All state of one partition of ``__transaction_state``, and the effects not yet returned.

    `deadlines` are those of the transactions that were ongoing at the last look for such that have timed out,
    at `looked_ms` of the steady clock.
    """

    config: TransactionConfig
    # returns the finalized level of transaction.version
    level: Callable[[], int]
    entries: dict[str, Entry] = field(default_factory=dict)
    appends: dict[int, Callable[[Error, int], None]] = field(default_factory=dict)
    last_append_id: int = 0
    outbox: list[Effect] = field(default_factory=list)
    deadlines: dict[str, Deadline] = field(default_factory=dict)
    looked_ms: int | None = None

    # ---- effects

    def respond(self, token: object, body: Any) -> None:
        """Answers a request."""
        self.outbox.append(Respond(token, body))

    def append(self, records: list[Record], finished: Callable[[Error, int], None]) -> None:
        """Requests a write; `finished(error, now_ms)` follows when it is committed or did not happen."""
        self.last_append_id += 1
        self.appends[self.last_append_id] = finished
        self.outbox.append(AppendRecords(self.last_append_id, records))

    def note(self, text: str) -> None:
        """Adds a line to the broker's log."""
        self.outbox.append(Note(text))

    def take_effects(self) -> list[Effect]:
        """Returns the effects since the last call, in order."""
        effects, self.outbox = self.outbox, []
        return effects

    # ---- changes

    def change(self, entry: Entry, to: Transaction, finished: Callable[[Error, int], None]) -> None:
        """Writes the new state of an entry; `finished` is called after it has become the committed one."""
        assert entry.pending is None, entry
        entry.pending = to
        entry.is_writing = True

        def written(error: Error, now_ms: int) -> None:
            entry.is_writing = False
            entry.pending = None
            if not error:
                entry.committed = to
            finished(append_error(error), now_ms)

        self.append([transaction_record(to, self.level())], written)

    def send_markers(self, entry: Entry, now_ms: int) -> None:
        """Begins to end a transaction whose outcome is committed."""
        transaction = entry.committed
        entry.unmarked = set(transaction.partitions)
        entry.pending = transaction.completed(now_ms)
        if entry.unmarked:
            self.outbox.append(SendMarkers(transaction, transaction.partitions))
        else:
            self.complete(entry, now_ms)

    def complete(self, entry: Entry, now_ms: int) -> None:
        """Writes that a transaction has ended. The caller has all markers."""
        assert entry.pending is not None and not entry.unmarked and not entry.is_writing, entry
        to = entry.pending
        entry.is_writing = True

        def written(error: Error, now_ms: int) -> None:
            entry.is_writing = False
            if error:
                self.outbox.append(CompleteLater(to.transactional_id))
                return
            entry.committed = to
            entry.pending = None
            self.outbox.append(Ended(to.transactional_id))

        self.append([transaction_record(to, self.level())], written)
