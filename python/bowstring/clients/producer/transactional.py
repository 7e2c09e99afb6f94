"""Implements Producer's methods for transactions (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from bowstring.clients.errors import ClientError, ConfigError, ProducerFencedError, TransactionFailedError
from bowstring.clients.group.offset_requests import with_metadata
from bowstring.clients.records import GroupMetadata, OffsetAndMetadata, Record, TopicPartition
from bowstring.clients.timeouts import bounded

if TYPE_CHECKING:
    from bowstring.clients.producer.prepared import PreparedTransaction
    from bowstring.clients.producer.sender import Sender
    from bowstring.clients.producer.transactions import Transactions

_log = logging.getLogger("bowstring.producer")


class TransactionalSending:
    """Mixed into Producer, which provides the sender."""

    if TYPE_CHECKING:
        _sender: Sender

        def _check_open(self) -> None: ...

    def _transactions(self) -> Transactions:
        self._check_open()
        if self._sender.in_callback():
            raise ClientError("a callback cannot wait for a transaction: begin and end it in another thread")
        if self._sender.transactions is None:
            raise ConfigError("transactions need a transactional_id: give one to Producer")
        return self._sender.transactions

    @property
    def transactional(self) -> bool:
        """Whether sends belong to transactions: the producer has a transactional_id."""
        return self._sender.transactions is not None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and its outcome is still open."""
        return self._sender.transactions is not None and self._sender.transactions.active

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Sends the block's records in one transaction: commits at its end, aborts if it raises.

        Raises:
            TransactionFailedError: a record of the block failed. The transaction is aborted; repeat it.
            ProducerFencedError: another producer has the transactional_id now.
            ClientTimeoutError: whether it is committed is unknown: call `commit_transaction` again.

        Examples:
            >>> with Producer("localhost:9092", transactional_id="mover-1") as producer:
            ...     with producer.transaction():
            ...         future = producer.send("moved", b"hello", partition=0)
            >>> print(future.result().offset)
            0
        """
        self.begin_transaction()
        try:
            yield self
        except BaseException as error:
            self.abort_because_of(error)
            raise
        try:
            self.commit_transaction()
        except TransactionFailedError as error:
            self.abort_because_of(error)
            raise

    def abort_because_of(self, error: BaseException) -> None:
        """Aborts the open transaction after `error`, which the caller raises, unless the producer was fenced.

        Args:
            error: what ended a block of `transaction`.

        Raises:
            ProducerFencedError: another producer has the transactional_id now, and `error` is a client's.
        """
        transactions = self._sender.transactions
        if self._sender.closing or transactions is None or not transactions.active:
            return
        try:
            self.abort_transaction()
        except ProducerFencedError as fenced:
            if isinstance(error, ClientError):
                raise fenced from error
            _log.warning("a transaction was not aborted: %s", fenced)
        except ClientError as failure:
            _log.warning("a transaction was not aborted, and ends by its timeout: %s", failure)

    def init_transactions(self, timeout: float | None = None) -> None:
        """Gets the producer's id, and fences earlier producers of the same transactional_id: their open
        transactions are aborted. The first `begin_transaction` does the same.

        Args:
            timeout: seconds; None for max_block_ms.

        Raises:
            ClientTimeoutError: the coordinator did not answer in time; call it again.
            ClientError: the coordinator refuses the transactional_id.
        """
        self._transactions().init(bounded(timeout))

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begins a transaction. Everything sent until its commit or abort belongs to it.

        Args:
            timeout: seconds for the first call, which is `init_transactions`; None for max_block_ms.

        Raises:
            ClientError: a transaction is open already.
            ProducerFencedError: another producer has the transactional_id now.
        """
        self._transactions().begin(bounded(timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Waits until everything sent is stored, then commits. All of it or nothing becomes readable.

        Args:
            timeout: seconds; None for max_block_ms, after records have an outcome by delivery_timeout_ms.

        Raises:
            TransactionFailedError: a record, or sending offsets, failed: `abort_transaction` and repeat.
            ProducerFencedError: another producer has the transactional_id now.
            ClientTimeoutError: the outcome is unknown: call `commit_transaction` again to get it.
        """
        self._transactions().commit(bounded(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Aborts: readers of committed records see nothing of the transaction. Waiting records fail.

        Args:
            timeout: seconds; None for max_block_ms, after requests in flight are answered.

        Raises:
            ProducerFencedError: another producer has the transactional_id now.
            ClientTimeoutError: call `abort_transaction` again to wait longer.
        """
        self._transactions().abort(bounded(timeout))

    def finish_transaction(self) -> None:
        """Ends an operation that `commit_transaction` or `abort_transaction` left undecided; for `transform`.

        Raises:
            ClientError: as these raise it.
        """
        self._transactions().finish(None)

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Waits until everything sent is stored, and leaves it to another process to commit or abort.

        The result may be pickled. Any process that has it calls `complete` before
        transaction_timeout_ms is over. This producer takes no more records: close it, which does not abort.
        So one driver commits the records of many workers, once all of them have prepared.

        Args:
            timeout: seconds; None for as long as records take to have an outcome.

        Returns:
            The transaction; None if nothing was sent in it.

        Raises:
            TransactionFailedError: a record, or sending offsets, failed: `abort_transaction`.
            ProducerFencedError: another producer has the transactional_id now.
        """
        return self._transactions().prepare(bounded(timeout))

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record,
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commits offsets of a group with the open transaction, if that is committed (KIP-447).

        Args:
            offsets: offset of the next record to read, by partition; or the record processed last in its
                partition.
            group_metadata: `Consumer.group_metadata()`, so that a member whose partitions have moved is
                refused; or the name of a group without members.
            timeout: seconds; None for max_block_ms.

        Raises:
            CommitFailedError: the group has reassigned the partitions: abort, and poll again.
            ClientError: abort the transaction.
        """
        group = GroupMetadata(group_metadata) if isinstance(group_metadata, str) else group_metadata
        self._transactions().send_offsets(with_metadata(offsets), group, bounded(timeout))

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Record,
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """The name of `send_offsets` in Java's client, kafka-python and confluent-kafka.

        Args:
            offsets, group_metadata, timeout: as for `send_offsets`.
        """
        self.send_offsets(offsets, group_metadata, timeout)
