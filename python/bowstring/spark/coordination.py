"""Commits the transactions that the tasks of a write prepared, all or nothing, and each micro-batch once.

A task sends in a transaction and prepares it. The driver writes its decision, which is metadata of a group
named after the query: the batch and the chosen transactions. Then it commits them. A repeated batch finds the
decision, sends nothing, and commits what the decision names. The metadata is stored with the offset -1, which
means none, so that the group has no lag.
"""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from bowstring.clients.config.security import client_security
from bowstring.clients.errors import BrokerError, ClientError
from bowstring.clients.group.offset_queries import commit_offsets, committed_offsets
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.producer.prepared import PreparedTransaction, complete_all, open_transactions
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from bowstring.protocol.errors import Errors
from bowstring.spark.task_counts import Count
from bowstring.spark.task_names import BATCH_ID, QUERY_ID

log = logging.getLogger("bowstring.spark")

PREFIX = "bowstring-spark-"
# The driver aborts what this many attempts of a task left open, Spark's default of spark.task.maxFailures.
# With a higher setting, what later attempts left open ends by kafka.transaction.timeout.ms.
USUAL_ATTEMPTS = 4
TIMEOUT_S = 60.0
FORM = "2:"
# Earlier versions stored the offset batch + 1 instead of the batch's number.
EARLIER_FORM = "1:"
NO_OFFSET = -1
METADATA_MAX = 1 << 20


class UndecidedError(ClientError):
    """Transactions of a batch were aborted before it was decided: the batch has to run again."""


class DecidedLostError(ClientError):
    """Transactions of a decided batch were aborted: their rows are missing in the topic."""


class CheckpointError(ClientError):
    """The checkpoint and the group that holds the decisions contradict each other."""


class Task(NamedTuple):
    """An attempt to write one partition of a write.

    Attributes:
        write: id of the streaming query, or of the batch job.
        batch: number of the micro-batch; None in a batch job.
        partition, attempt: of the task.
    """

    write: str
    batch: int | None
    partition: int
    attempt: int

    @property
    def transactional_id(self) -> str:
        """Name of the task's producer."""
        return _transactional_id(self.write, self.partition, self.attempt)


@dataclass
class Written(WriterCommitMessage):
    """The result of a task.

    Attributes:
        records: how many it sent.
        task: in a write with transactions, the task.
        prepared: its transaction; None if it sent nothing.
        decided: whether it sent nothing because its batch was decided before.
        topic: one of those that it sent to.
        query: id of the streaming query; None in a batch job.
        counts: of what it sent, for the audit of counts.
    """

    records: int
    task: Task | None = None
    prepared: PreparedTransaction | None = None
    decided: bool = False
    topic: str | None = None
    query: str | None = None
    counts: Sequence[Count] = ()


class Decision(NamedTuple):
    """What the driver decided last: the transactions of batch `batch` are committed."""

    batch: int
    transactions: list[PreparedTransaction]


def group_of(query: str) -> str:
    """Returns the group whose metadata is the decision about a query's last batch."""
    return PREFIX + query


def this_task(job: str | None = None) -> Task:
    """Returns the running task, of the batch job of that id, or of the streaming query that Spark names.

    Raises:
        ClientError: Spark does not name one.
    """
    context = TaskContext.get()
    if context is None:
        raise ClientError("delivery=exactly-once works in Spark's tasks only")
    partition, attempt = context.partitionId(), context.attemptNumber()
    if job is not None:
        return Task(job, None, partition, attempt)
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise ClientError(
            "delivery=exactly-once needs micro-batches: Spark names no batch here. Use a trigger of "
            "micro-batches, such as processingTime"
        )
    return Task(query, int(batch), partition, attempt)


def _transactional_id(write: str, partition: int, attempt: int) -> str:
    return f"{PREFIX}{write}-{partition}-{attempt}"


def _pack(write: str, batch: int, transactions: Iterable[PreparedTransaction]) -> str:
    prefix = len(PREFIX) + len(write) + 1
    rows = [
        [*map(int, each.transactional_id[prefix:].split("-")), each.producer_id, each.epoch]
        for each in transactions
    ]
    text = json.dumps(rows, separators=(",", ":")).encode()
    return f"{FORM}{batch}:{base64.b85encode(zlib.compress(text, 9)).decode()}"


def _unpack(write: str, stored: OffsetAndMetadata) -> Decision:
    form, rest = stored.metadata[: len(FORM)], stored.metadata[len(FORM) :]
    try:
        if form not in (FORM, EARLIER_FORM):
            raise ValueError
        number, packed = rest.split(":", 1) if form == FORM else (stored.offset - 1, rest)
        rows = json.loads(zlib.decompressobj().decompress(base64.b85decode(packed), METADATA_MAX))
        transactions = [
            PreparedTransaction(_transactional_id(write, partition, attempt), number, epoch)
            for partition, attempt, number, epoch in (map(int, row) for row in rows)
        ]
        return Decision(int(number), transactions)
    except (ValueError, TypeError, zlib.error):
        raise CheckpointError(
            f"the offset of group {group_of(write)!r} has other metadata than this sink writes: the group's "
            "offsets were changed. Delete the group if the last batch is to be written again"
        ) from None


class Coordination:
    """Connections for the decisions and transactions of one write.

    Args:
        bootstrap_servers: of the cluster.
        write: id of the streaming query, or of the batch job.
        security: settings of TLS and SASL.
    """

    def __init__(self, bootstrap_servers: str, write: str, security: Mapping[str, Any] | None = None):
        self._client = NetworkClient(
            "bowstring-spark", transactional=True, security=client_security(security)
        )
        self._cluster = ClusterMetadata(
            self._client, parse_bootstrap(bootstrap_servers), allow_auto_create=False
        )
        self._write = write
        self._group = group_of(write)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._client.close()

    def decision(self) -> Decision | None:
        """Returns the last decision; None if there is none.

        Raises:
            CheckpointError: it is not this sink's.
            ClientError: the group's coordinator did not answer in time.
        """
        found = committed_offsets(self._cluster, self._group, None, TIMEOUT_S, metadata_alone=True)
        decisions = [_unpack(self._write, each) for each in found.values()]
        return max(decisions, key=lambda each: each.batch, default=None)

    def is_decided(self, batch: int) -> bool:
        """Returns whether a batch is decided, so that its tasks send nothing.

        Raises:
            CheckpointError: a later batch is decided, too.
        """
        found = self.decision()
        if found is None or found.batch < batch:
            return False
        if found.batch > batch:
            raise CheckpointError(
                f"the checkpoint is at batch {batch}, but batch {found.batch} of the query is in the topic "
                f"already: the checkpoint is older than the topic. To write its batches again, which doubles "
                f"rows, delete the group {self._group!r}; or begin with a new checkpoint"
            )
        return True

    def leftovers(self, chosen: Sequence[PreparedTransaction], partitions: int) -> list[PreparedTransaction]:
        """Returns the open transactions of attempts that Spark did not choose.

        Args:
            chosen: the transactions of the attempts that it chose.
            partitions: how many tasks the write has.

        Raises:
            UndecidedError: a chosen one is no longer open.
        """
        wanted = {each.transactional_id: each for each in chosen}
        names = {
            _transactional_id(self._write, partition, attempt)
            for partition in range(partitions)
            for attempt in range(USUAL_ATTEMPTS)
        }
        found = open_transactions(self._cluster, sorted(names | wanted.keys()), TIMEOUT_S)
        lost = [name for name, each in wanted.items() if found.get(name) != each]
        if lost:
            raise UndecidedError(
                f"{len(lost)} of {len(wanted)} transactions were aborted before the batch was decided, such "
                f"as {lost[0]!r}: by kafka.transaction.timeout.ms, or by another run of the query. Nothing "
                "of the batch is committed. Start the query again: it writes the batch again"
            )
        return [each for name, each in found.items() if name not in wanted]

    def decide(self, batch: int, topic: str, chosen: Sequence[PreparedTransaction]) -> None:
        """Stores the decision to commit the transactions of a batch.

        Raises:
            ClientError: it is not stored, or the outcome is unknown.
        """
        metadata = _pack(self._write, batch, chosen)
        at = {TopicPartition(topic, 0): OffsetAndMetadata(NO_OFFSET, metadata=metadata)}
        try:
            commit_offsets(self._cluster, self._group, at, TIMEOUT_S)
        except BrokerError as error:
            if error.code != Errors.OFFSET_METADATA_TOO_LARGE.code:
                raise
            raise ClientError(
                f"the {len(chosen)} transactions of batch {batch} do not fit into the metadata of an offset: "
                "write with fewer tasks, with .coalesce(n), or raise offset.metadata.max.bytes of the brokers"
            ) from error

    def commit(self, transactions: Sequence[PreparedTransaction], what: str) -> None:
        """Commits the decided transactions; may be repeated.

        Raises:
            DecidedLostError: some are aborted.
            ClientError: the coordinators did not answer in time.
        """
        aborted = [*complete_all(self._cluster, transactions, commit=True, timeout_s=TIMEOUT_S)]
        if aborted:
            raise DecidedLostError(
                f"{what}: {len(aborted)} of {len(transactions)} transactions were aborted before they could "
                f"be committed, such as {aborted[0].transactional_id!r}, because the driver was away for "
                "longer than kafka.transaction.timeout.ms. Their rows are not in the topic; those of the "
                f"others are. To write the batch again, which doubles the others, delete the group "
                f"{self._group!r} and start the query again"
            )

    def abort(self, transactions: Sequence[PreparedTransaction]) -> None:
        """Aborts transactions that nothing will commit; logs those that end only by their timeout."""
        for each in transactions:
            try:
                complete_all(self._cluster, [each], commit=False, timeout_s=TIMEOUT_S)
            except ClientError as error:
                log.warning("%s stays open until its timeout: %s", each.transactional_id, error)


def commit_batch(coordination: Coordination, batch: int, messages: Sequence[Written]) -> None:
    """Decides about a micro-batch and commits it; or commits it as it was decided before.

    Raises:
        ClientError: see `Coordination`.
    """
    chosen = [each.prepared for each in messages if each.prepared is not None]
    was_decided = coordination.is_decided(batch)
    if not was_decided and any(each.decided for each in messages):
        raise CheckpointError(
            f"the decision about batch {batch} disappeared while the batch ran: start the query again"
        )
    if was_decided:
        decision = coordination.decision()
        assert decision is not None
        coordination.commit(decision.transactions, f"batch {batch}")
        coordination.abort([each for each in chosen if each not in decision.transactions])
        log.info("batch %d was decided before; its transactions are committed", batch)
        return
    if not chosen:
        return
    rest = coordination.leftovers(chosen, len(messages))
    topic = min(each.topic for each in messages if each.topic is not None)
    coordination.decide(batch, topic, chosen)
    coordination.commit(chosen, f"batch {batch}")
    coordination.abort(rest)


def abort_batch(
    coordination: Coordination, batch: int | None, messages: Sequence[WriterCommitMessage | None]
) -> None:
    """Aborts the prepared transactions of a failed write's tasks, unless its batch is decided."""
    chosen = [each.prepared for each in messages if isinstance(each, Written) and each.prepared is not None]
    decision = None if batch is None else coordination.decision()
    if decision is not None and batch is not None and decision.batch >= batch:
        return
    try:
        rest = coordination.leftovers([], len(messages))
    except ClientError as error:
        log.warning("transactions of failed tasks stay open until their timeouts: %s", error)
        rest = []
    coordination.abort([*chosen, *(each for each in rest if each not in chosen)])
