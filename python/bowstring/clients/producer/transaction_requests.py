"""Sends a producer's requests to the coordinators of its transactions (KIP-98, KIP-890), one at a time.

Everything runs in the sender's thread, between its rounds. Callers queue an `Operation` and
wait for its event.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from bowstring._native.client.accumulator import PartitionQueue
from bowstring.clients.errors import BrokerError, CommitFailedError, TransactionFailedError, broker_error
from bowstring.clients.net.connection import Api, Body, Pending
from bowstring.clients.net.coordinators import (
    GROUP,
    TRANSACTION,
    coordinator_name,
    coordinator_request,
    found_coordinator,
)
from bowstring.clients.producer import transaction_messages as messages
from bowstring.clients.records import GroupMetadata, Node, OffsetAndMetadata, TopicPartition
from bowstring.clients.troubles import GRACE_S
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from bowstring.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from bowstring.protocol.messages.end_txn import EndTxnRequest
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest
from bowstring.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from bowstring.clients.producer.sender import Sender

# A transaction's markers are written after its end was answered, usually within a millisecond.
CONCURRENT_PAUSE_S = 0.001

_MOVED = (
    Errors.NOT_COORDINATOR.code,
    Errors.COORDINATOR_NOT_AVAILABLE.code,
    Errors.REQUEST_TIMED_OUT.code,
)
_FENCED = (Errors.PRODUCER_FENCED.code, Errors.INVALID_PRODUCER_EPOCH.code)
_MEMBER_GONE = (Errors.UNKNOWN_MEMBER_ID.code, Errors.ILLEGAL_GENERATION.code)
# The transaction has to be aborted; the next one may succeed.
_ABORTABLE = (
    *_MEMBER_GONE,
    Errors.FENCED_INSTANCE_ID.code,
    Errors.REBALANCE_IN_PROGRESS.code,
    Errors.TRANSACTION_ABORTABLE.code,
    Errors.TOPIC_AUTHORIZATION_FAILED.code,
    Errors.GROUP_AUTHORIZATION_FAILED.code,
    Errors.INVALID_GROUP_ID.code,
    Errors.OFFSET_METADATA_TOO_LARGE.code,
)


class Kind(Enum):
    """The kinds of operations that callers wait for."""

    INIT = "InitProducerId"
    OFFSETS = "TxnOffsetCommit"
    COMMIT = "commit"
    ABORT = "abort"


class Operation:
    """An operation that a caller waits for; `done` is set once `error` is final.

    Attributes:
        offsets, group: of OFFSETS.
        added: OFFSETS: the group is part of the transaction.
        ended: ABORT: the coordinator has aborted, so only a new epoch is missing.
    """

    __slots__ = ("added", "done", "ended", "error", "group", "kind", "offsets", "submitted")

    def __init__(
        self,
        kind: Kind,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        group: GroupMetadata | None = None,
    ):
        self.kind = kind
        self.offsets = offsets or {}
        self.group = group or GroupMetadata("")
        self.added = False
        self.submitted = False
        self.ended = False
        self.error: Exception | None = None
        self.done = threading.Event()

    def finish(self, error: Exception | None = None) -> None:
        """Wakes the caller with the outcome."""
        self.error = error
        self.done.set()


class TransactionRequests:
    """The requests of one transactional producer.

    Attributes:
        id: the transactional id.
        begun: the coordinator may have the current transaction.
    """

    def __init__(self, sender: Sender):
        self.id = sender.config.transactional_id or ""
        self.begun = False
        self._sender = sender
        self._client = sender.client
        self._accumulator = sender.accumulator
        self._operations: deque[Operation] = deque()
        self._running: Operation | None = None
        self._joining: dict[TopicPartition, PartitionQueue] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._pending: Pending | None = None
        self._retry_at = 0.0
        self._retries = 0

    # ------------------------------------------------------------ operations

    def submit(self, operation: Operation) -> None:
        """Queues an operation. In any thread."""
        self._operations.append(operation)
        self._accumulator.ask()

    def withdraw(self, operation: Operation) -> None:
        """Gives up an operation whose caller no longer waits. In any thread."""
        if operation in self._operations:
            self._operations.remove(operation)

    def join(self, queues: list[PartitionQueue]) -> None:
        """Adds partitions to the transaction; their batches are sent once the coordinator has them."""
        for queue in queues:
            self._joining[queue.partition] = queue

    def uses_version_2(self) -> bool:
        """Whether brokers add partitions by themselves, and each end gives a new epoch (KIP-890)."""
        return self._client.transaction_version() >= messages.VERSION_2

    def fail(self, error: Exception) -> None:
        """Ends everything that callers wait for."""
        while self._operations:
            self._operations.popleft().finish(error)
        self._joining.clear()

    # ------------------------------------------------------------ steps

    def step(self) -> float:
        """Sends the next request; returns seconds until the next check makes sense."""
        if self._pending is not None:
            return float("inf")
        left_s = self._retry_at - time.monotonic()
        if left_s > 0 and (self._joining or self._operations):
            return left_s
        if self._joining and self._sender.transactions_doomed:
            self._joining.clear()
        if self._joining:
            self._add_partitions()
        elif self._operations:
            self._run(self._operations[0])
        return 0.0 if self._client.early else float("inf")

    def _run(self, operation: Operation) -> None:
        self._running = operation
        identity = self._accumulator.producer
        if operation.kind is Kind.INIT:
            self._init(operation, -1, -1)
        elif operation.kind is Kind.OFFSETS:
            self._send_offsets(operation)
        elif operation.kind is Kind.ABORT and (operation.ended or not self._is_known()):
            self._init(operation, *identity)
        else:
            body = messages.end_transaction(self.id, identity, operation.kind is Kind.COMMIT)
            self._ask(TRANSACTION, self.id, EndTxnRequest, body, self._on_end(operation))

    def _is_known(self) -> bool:
        return self.begun or not self._accumulator.adds_partitions

    def _ask(
        self, kind: int, key: str, api: Api, body: Body, answered: Callable[[Any, Pending], None]
    ) -> None:
        """Sends a request to a coordinator, or looks it up first."""
        node = self._coordinators.get((kind, key))
        if node is None:
            self._find(kind, key)
            return
        self._pending = self._client.send(
            node, api, body, callback=lambda pending: self._on_answer(pending, (kind, key), answered)
        )

    def _on_answer(
        self, pending: Pending, asked: tuple[int, str], answered: Callable[[Any, Pending], None]
    ) -> None:
        self._pending = None
        if pending.error is None:
            answered(pending.response, pending)
        elif pending.error.retriable:
            self._coordinators.pop(asked, None)
            self._pause()
        else:
            self._sender.give_up(pending.error)

    def _find(self, kind: int, key: str) -> None:
        def found(pending: Pending) -> None:
            self._pending = None
            error = pending.error
            if error is None:
                try:
                    self._coordinators[(kind, key)] = found_coordinator(pending.response, key, kind)
                    self._retries = 0
                    return
                except BrokerError as refusal:
                    error = refusal
            if error.retriable:
                self._client.troubles.note(self._name(kind, key), error, grace_s=GRACE_S)
                self._pause()
            elif kind == GROUP:
                self._abortable(error)
            else:
                self._sender.give_up(error)

        self._pending = self._client.send(
            self._sender.cluster.any_node(),
            FindCoordinatorRequest,
            coordinator_request(key, kind=kind),
            callback=found,
        )

    def _name(self, kind: int, key: str) -> str:
        return coordinator_name(key, kind)

    def _pause(self, first_s: float | None = None) -> None:
        """Waits before the next request; each time twice as long."""
        config = self._sender.config
        pause_s = (first_s or config.retry_backoff_s) * 2 ** min(self._retries, 10)
        limit_s = config.retry_backoff_s if first_s else config.retry_backoff_max_s
        self._retries += 1
        self._retry_at = time.monotonic() + min(pause_s, limit_s)

    # ------------------------------------------------------------ answers

    def _accepted(self, kind: int, key: str, code: int, what: str) -> bool:
        """Whether the coordinator accepted the request; otherwise repeats it, or ends its operation."""
        if code == 0:
            self._retries = 0
            self._client.troubles.over(self._name(kind, key))
            return True
        error = broker_error(code, what)
        if code in _MOVED:
            self._coordinators.pop((kind, key), None)
            self._client.troubles.note(self._name(kind, key), error, grace_s=GRACE_S)
            self._pause()
        elif code == Errors.CONCURRENT_TRANSACTIONS.code:
            self._pause(CONCURRENT_PAUSE_S)
        elif code in _FENCED:
            self._sender.give_up(broker_error(Errors.PRODUCER_FENCED.code, f"transactional id {self.id!r}"))
        elif code in _ABORTABLE:
            self._abortable(CommitFailedError(code, what) if code in _MEMBER_GONE else error)
        elif error.retriable:
            self._client.troubles.note(self._name(kind, key), error, grace_s=GRACE_S)
            self._pause()
        else:
            self._sender.give_up(error)
        return False

    def _abortable(self, error: Exception) -> None:
        """Ends the waiting operation with an error that only an abort resolves."""
        assert self._sender.transactions is not None
        self._sender.transactions.doom(error)
        operation = self._operations[0] if self._operations else None
        if operation is None or (operation is not self._running and operation.kind is Kind.ABORT):
            return  # an abort is unaffected by the answer to an earlier request
        self._operations.popleft()
        if operation.kind is Kind.OFFSETS:
            operation.finish(error)
            return
        failure = TransactionFailedError(f"the coordinator did not commit: {error}")
        failure.__cause__ = error
        operation.finish(failure)

    def _finish(self, operation: Operation) -> None:
        self.withdraw(operation)
        operation.finish()

    # ------------------------------------------------------------ one kind of request each

    def _init(self, operation: Operation, producer_id: int, epoch: int) -> None:
        """Gets an id and an epoch; given the previous ones, the next epoch (KIP-360)."""

        def answered(response: Any, _: Pending) -> None:
            what = f"asking for the producer id of transactional id {self.id!r}"
            if self._accepted(TRANSACTION, self.id, response.error_code, what):
                self._accumulator.renumber(response.producer_id, response.producer_epoch)
                self._finish(operation)

        timeout_ms = self._sender.config.transaction_timeout_ms
        body = messages.init_producer(self.id, timeout_ms, (producer_id, epoch))
        self._ask(TRANSACTION, self.id, InitProducerIdRequest, body, answered)

    def _add_partitions(self) -> None:
        queues = dict(self._joining)
        transaction = self._accumulator.transaction

        def answered(response: Any, _: Pending) -> None:
            codes = messages.added_partitions(response)
            for partition, queue in queues.items():
                code = codes.get(partition, Errors.OPERATION_NOT_ATTEMPTED.code)
                if code == 0:
                    self._joining.pop(partition, None)
                    queue.join(transaction)
            # OPERATION_NOT_ATTEMPTED is the echo of another partition's error
            refused = {code for code in codes.values() if code}
            told = min(refused - {Errors.OPERATION_NOT_ATTEMPTED.code}, default=0)
            if self._accepted(TRANSACTION, self.id, told, "adding partitions to the transaction"):
                self._joining.clear() if not refused else self._pause()

        self.begun = True
        body = messages.add_partitions(self.id, self._accumulator.producer, queues)
        self._ask(TRANSACTION, self.id, AddPartitionsToTxnRequest, body, answered)

    def _send_offsets(self, operation: Operation) -> None:
        identity, group = self._accumulator.producer, operation.group
        if self._accumulator.adds_partitions and not operation.added:

            def added(response: Any, _: Pending) -> None:
                what = f"adding offsets of group {group.group_id!r} to the transaction"
                operation.added = self._accepted(TRANSACTION, self.id, response.error_code, what)

            self.begun = True
            body = messages.add_offsets(self.id, identity, group.group_id)
            self._ask(TRANSACTION, self.id, AddOffsetsToTxnRequest, body, added)
            return

        def answered(response: Any, _: Pending) -> None:
            codes = {part.error_code for topic in response.topics for part in topic.partitions}
            what = f"sending offsets of group {group.group_id!r} to the transaction"
            if self._accepted(GROUP, group.group_id, max(codes, default=0), what):
                self._finish(operation)

        commit = messages.offset_commit(self.id, identity, operation.offsets, group)
        self._ask(GROUP, group.group_id, TxnOffsetCommitRequest, commit, answered)

    def _on_end(self, operation: Operation) -> Callable[[Any, Pending], None]:
        def answered(response: Any, _: Pending) -> None:
            code = response.error_code
            if operation.kind is Kind.ABORT and code == Errors.INVALID_TXN_STATE.code:
                code = 0  # the transaction never began there; the next step gives a new epoch in any case
                response.producer_id = -1
            if not self._accepted(TRANSACTION, self.id, code, f"ending a transaction of {self.id!r}"):
                return
            if response.producer_id >= 0:
                self._accumulator.renumber(response.producer_id, response.producer_epoch)
            elif operation.kind is Kind.ABORT:
                operation.ended = True  # late records must not join the next transaction
                return
            self._finish(operation)

        return answered
