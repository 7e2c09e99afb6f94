"""Transforms records exactly once: reading and writing are committed in one transaction (KIP-447).

Imported by: aio.
May import: clients, clients.consumer, clients.producer.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bowstring.clients.arguments import checked
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ClientError, CommitFailedError, ConfigError, ProducerFencedError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.clients.timeouts import seconds

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.clients.records import Record

_log = logging.getLogger("bowstring.transform")

POLL_S = 1.0


@checked
def transform(
    consumer: Consumer,
    function: Callable[[list[Record], Producer], object] | Callable[[pa.RecordBatch, Producer], object],
    producer: Producer,
    *,
    arrow: bool = False,
    columns: Sequence[str] | None = None,
    max_records: int | None = None,
    commit_interval_ms: float = 100,
    timeout: float | None = None,
    until: Callable[[], bool] | None = None,
) -> int:
    """Reads, calls `function`, which sends, and commits both as one: each record takes effect exactly once.

    A transaction has the records of commit_interval_ms, and is committed before partitions go to another
    member of the group. If `function`, sending or committing fails, the transaction is aborted and the
    consumer moved back, so that the same records come again: to the next call, or to another member. Only
    sends by the producer take effect once; other effects may repeat.

    Args:
        consumer: subscribed, with a group_id, isolation_level="read_committed" and enable_auto_commit=False.
        function: called with records (with `arrow`, a pyarrow.RecordBatch) and the producer; sends what they
            become, to any topics.
        producer: with a transactional_id that no other process uses.
        arrow: reads by `poll_arrow` instead of `poll`.
        columns: of `poll_arrow`; None for all.
        max_records: most records of one call of `function`; None for what has arrived, or max_poll_records.
        commit_interval_ms: longest time for which a transaction takes records.
        timeout: seconds without records after which it ends; None for never.
        until: called between calls of `function`; true ends it.

    Returns:
        How many records were read and committed.

    Raises:
        ConfigError: consumer or producer is not set up for this.
        ProducerFencedError: another process uses the transactional_id.
        ClientError: an operation failed; a later call tries again.

    Examples:
        >>> def shout(records, producer):
        ...     for record in records:
        ...         producer.send("loud-greetings", record.value.upper(), record.key)
        >>> settings = {"isolation_level": "read_committed", "enable_auto_commit": False}
        >>> where = "localhost:9092"
        >>> with (
        ...     Consumer(where, group_id="shouters", auto_offset_reset="earliest", **settings) as consumer,
        ...     Producer(where, transactional_id="shouter-1") as producer,
        ... ):
        ...     consumer.subscribe("greetings")
        ...     bowstring.transform(consumer, shout, producer, timeout=2)
        1
    """
    running = _Transform(consumer, producer, commit_interval_ms / 1000)
    poll: Callable[[float], Any] = functools.partial(consumer.poll, max_records=max_records)
    if arrow:
        poll = functools.partial(consumer.poll_arrow, max_records=max_records, columns=columns)
    with consumer.watching_partitions(running.commit_before, running.lose):
        return running.run(poll, function, seconds(timeout), until)


class _Transform:
    """One run of `transform`.

    Attributes:
        starts: by partition, the first position whose records belong to the open transaction.
        deciding: the coordinator may have received the commit.
    """

    def __init__(self, consumer: Consumer, producer: Producer, interval_s: float):
        consumer.check_exactly_once()
        if not producer.transactional:
            raise ConfigError("transform() needs a producer with a transactional_id")
        self.consumer = consumer
        self.producer = producer
        self.interval_s = interval_s
        self.starts: dict[TopicPartition, int] = {}
        self.open = False
        self.deciding = False
        self.due = 0.0
        self.taken = 0
        self.committed = 0

    def run(
        self,
        poll: Callable[[float], Any],
        function: Callable[[Any, Producer], object],
        timeout_s: float,
        until: Callable[[], bool] | None,
    ) -> int:
        """Runs until time is over, or `until` returns true."""
        self.producer.init_transactions()
        self.producer.finish_transaction()
        idle_at = time.monotonic() + timeout_s
        try:
            while not (until is not None and until()):
                now = time.monotonic()
                if self.open and now >= self.due:
                    self.commit()
                batch = poll(max(0.0, min(POLL_S, idle_at - now, self.due - now if self.open else POLL_S)))
                if len(batch):
                    self._process(function, batch)
                    idle_at = time.monotonic() + timeout_s
                elif time.monotonic() >= idle_at:
                    break
            self.commit()
        except BaseException:
            self._undo()
            raise
        return self.committed

    def _process(self, function: Callable[[Any, Producer], object], batch: Any) -> None:
        for partition, position in self.consumer.last_taken().items():
            self.starts.setdefault(partition, position)
        if not self.open:
            self.producer.begin_transaction()
            self.open = True
            self.due = time.monotonic() + self.interval_s
        self.taken += len(batch)
        function(batch, self.producer)

    def commit(self) -> None:
        """Commits the records read and sent. If the group reassigned the partitions meanwhile, undoes it."""
        if not self.open:
            return
        positions = self.consumer.consumed()
        offsets = {each: positions[each] for each in self.starts if each in positions}
        try:
            self.producer.send_offsets(offsets, self.consumer.group_metadata())
        except CommitFailedError as error:
            _log.warning("a transaction is aborted, because its partitions have moved: %s", error)
            self._undo()
            return
        self.deciding = True
        self.producer.commit_transaction()
        self.committed += self.taken
        self._forget()

    def commit_before(self, partitions: list[TopicPartition]) -> None:
        """Commits before partitions go to another member."""
        if self.starts.keys() & set(partitions):
            self.commit()

    def lose(self, partitions: list[TopicPartition]) -> None:
        """Aborts: another member may have the partitions already."""
        if self.open:
            self._undo()

    def _undo(self) -> None:
        """Aborts, and moves the consumer back to the start of the transaction. If it may be committed, the
        group's offsets decide.
        """
        starts, undecided = self.starts, self.deciding
        opened = self.open
        self._forget()
        try:
            if opened and self.producer.in_transaction:
                self.producer.abort_transaction()
                undecided = False
        except ProducerFencedError:
            raise
        except ClientError as error:
            _log.warning("a transaction was not aborted, and ends by its timeout: %s", error)
        finally:
            move = self.consumer.move_to_committed if undecided else self.consumer.move_back
            move(starts)

    def _forget(self) -> None:
        self.starts = {}
        self.open = False
        self.deciding = False
        self.taken = 0
