"""Keeps the state of a producer's transactions, and runs what its callers request (KIP-98).

| phase | means | left by |
|---|---|---|
| NEW | the producer has no id yet | `init` |
| READY | no transaction is open | `begin` |
| OPEN | records are taken | `commit`, `abort` |
| COMMITTING | no more are taken; waits for their outcomes | `commit`, `abort` |
| ENDING | the coordinator got the outcome | the same call again |
| PREPARED | another process ends it | `close` |

An open transaction is doomed once one of its records, or sending offsets, has failed: it can only be aborted.
A producer that another one fenced, or that a coordinator refused for good, has failed (`Sender.give_up`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from bowstring.clients.errors import (
    ClientError,
    ClientTimeoutError,
    ClosedError,
    ConfigError,
    TransactionAbortedError,
    TransactionFailedError,
)
from bowstring.clients.producer.batches import BatchesFuture
from bowstring.clients.producer.prepared import PreparedTransaction
from bowstring.clients.producer.transaction_requests import Kind, Operation, TransactionRequests
from bowstring.clients.records import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.producer.sender import Sender

# How often a waiting caller checks whether the sender still lives.
LOOK_AT_SENDER_S = 1.0


class Phase(Enum):
    """The state of a producer's transactions; see the table above."""

    NEW = "new"
    READY = "ready"
    OPEN = "open"
    COMMITTING = "committing"
    ENDING = "ending"
    PREPARED = "prepared"


class Transactions:
    """The transactions of one producer. Its methods run in callers' threads, one at a time, except `doom` and
    `drop_doomed`, which run in the sender's.

    Attributes:
        phase: where the producer is.
        failure: why the open transaction can only be aborted, or None.
        aborting: batches of the open transaction are given up.
    """

    def __init__(self, sender: Sender):
        self._sender = sender
        self._accumulator = sender.accumulator
        self._max_block_s = sender.config.max_block_s
        self._turn = threading.RLock()
        self._operation: Operation | None = None
        self._records_before = 0
        self._sent_offsets = False
        self.requests = TransactionRequests(sender)
        self.phase = Phase.NEW
        self.failure: Exception | None = None
        self.aborting = False

    @property
    def active(self) -> bool:
        """Whether a transaction has begun and its end is not known."""
        return self.phase in (Phase.OPEN, Phase.COMMITTING, Phase.ENDING)

    @property
    def doomed(self) -> bool:
        """Whether batches of the open transaction are not sent, or not again."""
        return self.failure is not None or self.aborting

    # ------------------------------------------------------------ findings of the sender's thread

    def doom(self, error: Exception) -> None:
        """Notes why the open transaction can only be aborted. In any thread."""
        if self.active and self.failure is None and not self.aborting:
            self.failure = error
            self._accumulator.outside = True
            self._accumulator.ask()

    def drop_doomed(self) -> None:
        """Completes the batches of a doomed transaction that are not in flight."""
        if not self.doomed:
            return
        error = TransactionAbortedError(
            f"the transaction was aborted before this record was sent{self._why()}"
        )
        for queue in list(self._accumulator.active):
            for batch in list(queue.waiting):
                self._accumulator.complete(batch, error)

    def _why(self) -> str:
        return f", because another failed: {self.failure}" if self.failure is not None else ""

    def refusal(self) -> ClientError:
        """Returns the reason why no record is accepted now."""
        if self.failure is not None:
            return self._failed()
        if self.phase is Phase.PREPARED:
            return ClientError(
                "the transaction is prepared, and another process ends it: close this producer"
            )
        if self.active:
            return ClientError("the transaction is being ended: send() after the next begin_transaction()")
        return ClientError(
            "a producer with a transactional_id sends within transactions only: "
            "`with producer.transaction():`, or begin_transaction()"
        )

    def _failed(self) -> TransactionFailedError:
        error = TransactionFailedError(
            f"the transaction cannot be committed, because a part of it failed: {self.failure}. "
            "abort_transaction(), and repeat the transaction"
        )
        error.__cause__ = self.failure
        return error

    # ------------------------------------------------------------ calls of callers

    def init(self, timeout_s: float | None) -> None:
        """Gets the producer's id and fences earlier producers of the same transactional id."""
        with self._turn:
            if self.phase is Phase.NEW:
                self._run(self._operation or Operation(Kind.INIT), timeout_s)
                self.phase = Phase.READY

    def begin(self, timeout_s: float | None) -> None:
        """Begins a transaction."""
        with self._turn:
            self.init(timeout_s)
            if self.phase is not Phase.READY:
                raise ClientError(
                    "a transaction is prepared: close this producer, and begin with another one"
                    if self.phase is Phase.PREPARED
                    else "a transaction is open: commit_transaction() or abort_transaction() first"
                )
            accumulator = self._accumulator
            accumulator.transaction += 1
            accumulator.adds_partitions = not self.requests.uses_version_2()
            self.requests.begun = False
            self._records_before = accumulator.record_count
            self._sent_offsets = False
            self.phase = Phase.OPEN
            accumulator.outside = False

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        timeout_s: float | None,
    ) -> None:
        """Adds offsets of a group to the open transaction."""
        with self._turn:
            if self.phase is not Phase.OPEN:
                raise ClientError("offsets are sent within a transaction: begin_transaction() first")
            if self.failure is not None:
                raise self._failed()
            if not group.group_id:
                raise ConfigError("the group metadata has no group_id: give Consumer a group_id")
            if not offsets:
                return
            self._sent_offsets = True
            operation = Operation(Kind.OFFSETS, offsets, group)
            try:
                self._run(operation, timeout_s)
            except BaseException as error:  # also an interrupt: abort() must not wait behind the offsets
                self.requests.withdraw(operation)
                self._operation = None
                self.doom(error if isinstance(error, Exception) else ClientError("interrupted"))
                raise

    def commit(self, timeout_s: float | None) -> None:
        """Commits the records sent since `begin`."""
        with self._turn:
            if self.phase is Phase.ENDING and self._operation is not None:
                self._await_end(Kind.COMMIT, timeout_s)
                return
            self._need_open("commit")
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            self._accumulator.outside = True
            self.phase = Phase.COMMITTING
            self._await_outcomes(timeout_s)
            self._check_sender()
            if self.failure is not None:
                raise self._failed()
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._end(Kind.COMMIT, left_s)

    def prepare(self, timeout_s: float | None) -> PreparedTransaction | None:
        """Waits for the outcome of every record, and leaves the end to another process."""
        with self._turn:
            self._need_open("prepare")
            self._accumulator.outside = True
            self.phase = Phase.COMMITTING
            self._await_outcomes(timeout_s)
            self._check_sender()
            if self.failure is not None:
                raise self._failed()
            if self._is_empty():
                self._over()
                return None
            self.phase = Phase.PREPARED
            if self._accumulator.counts is not None:
                self._accumulator.counts.keep()
            return PreparedTransaction(self.requests.id, *self._accumulator.producer)

    def abort(self, timeout_s: float | None) -> None:
        """Aborts the open transaction; records without an outcome fail."""
        with self._turn:
            if self.phase is Phase.ENDING and self._operation is not None:
                self._await_end(Kind.ABORT, timeout_s)
                return
            self._need_open("abort")
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            self._accumulator.outside = True
            self.aborting = True
            self._accumulator.ask()
            self._await_outcomes(timeout_s)
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._end(Kind.ABORT, left_s)

    def finish(self, timeout_s: float | None) -> None:
        """Waits for the end that an earlier call requested without getting its outcome."""
        with self._turn:
            if self.aborting:
                self.abort(timeout_s)
            elif self.phase is Phase.ENDING and self._operation is not None:
                try:
                    self._await_end(self._operation.kind, timeout_s)
                except TransactionFailedError:
                    self.abort(timeout_s)

    def _need_open(self, what: str) -> None:
        if self.phase not in (Phase.OPEN, Phase.COMMITTING):
            raise ClientError(f"there is no transaction to {what}: begin_transaction() first")

    def _await_outcomes(self, timeout_s: float | None) -> None:
        """Waits until no record of the transaction is in flight."""
        accumulator = self._accumulator
        with accumulator.flushing():
            BatchesFuture(list(accumulator.unfinished)).await_all(timeout_s)

    def _end(self, kind: Kind, timeout_s: float | None) -> None:
        if self._is_empty():
            self._over()
            return
        self._operation = Operation(kind)
        self.phase = Phase.ENDING
        self._await_end(kind, timeout_s)

    def _is_empty(self) -> bool:
        return self._accumulator.record_count == self._records_before and not self._sent_offsets

    def _await_end(self, kind: Kind, timeout_s: float | None) -> None:
        operation = self._operation
        assert operation is not None
        if operation.kind is not kind:
            raise ClientError(
                f"the transaction may have ended by {operation.kind.value}: call "
                f"{operation.kind.value}_transaction() again to know"
            )
        try:
            self._run(operation, timeout_s)
        except TransactionFailedError:
            self.phase = Phase.COMMITTING
            raise
        if self._accumulator.counts is not None:
            if kind is Kind.COMMIT:
                self._accumulator.counts.keep()
            else:
                self._accumulator.counts.drop()
        self._over()

    def _over(self) -> None:
        self.phase = Phase.READY
        self.failure = None
        self.aborting = False

    def _run(self, operation: Operation, timeout_s: float | None) -> None:
        """Runs an operation and waits; a call after one that timed out waits for the same operation."""
        wait_s = self._max_block_s if timeout_s is None else timeout_s
        self._operation = operation
        if not operation.submitted:
            operation.submitted = True
            self.requests.submit(operation)
        if not self._is_done(operation, time.monotonic() + wait_s):
            raise ClientTimeoutError(
                f"{operation.kind.value} for transactional id {self.requests.id!r} was not answered within "
                f"{wait_s:g} s: call it again to wait longer, or raise max_block_ms"
            )
        self._operation = None
        if operation.error is not None:
            raise operation.error

    def _is_done(self, operation: Operation, deadline: float) -> bool:
        while not operation.done.wait(max(0.0, min(LOOK_AT_SENDER_S, deadline - time.monotonic()))):
            if not self._sender.thread.is_alive():  # it ended just before the operation was submitted
                operation.finish(self._sender.failure or ClosedError("the producer is closed"))
            if time.monotonic() >= deadline:
                return operation.done.is_set()
        return True

    def _check_sender(self) -> None:
        if self._sender.failure is not None:
            raise self._sender.failure
