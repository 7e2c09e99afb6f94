"""Records on their way out: gathered in batches by partition, each batch shared by its records' futures.

Ownership: the producer's lock guards every PartitionQueue and every batch that is still open. A batch that
was closed (`seal`) belongs to the sender thread until it is done; its outcome is then read by any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from bowstring._native.encode import BatchBuilder
from bowstring.clients import batches
from bowstring.clients.errors import ClientTimeoutError
from bowstring.clients.records import RecordMetadata, TopicPartition

_log = logging.getLogger("bowstring.producer")


class ProduceBatch:
    """One record batch: open for appending, then sealed, then done.

    Attributes:
        base_sequence: sequence number of its first record, -1 until it is given one.
        attempts: how often it was sent.
        order: its place among the batches of its partition.
        base_offset: where it went, once done without error.
    """

    __slots__ = (
        "_callbacks",
        "_event",
        "_lock",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "created_at",
        "deadline",
        "done",
        "encoded",
        "error",
        "log_append_time_ms",
        "order",
        "partition",
        "producer",
        "record_count",
        "retry_at",
        "size_bytes",
    )

    def __init__(
        self, partition: TopicPartition, delivery_timeout_s: float, builder: BatchBuilder | None = None
    ):
        self.partition = partition
        self.builder = builder
        self.encoded: bytes | None = None
        self.record_count = 0
        self.size_bytes = 0
        self.created_at = time.monotonic()
        self.deadline = self.created_at + delivery_timeout_s
        self.retry_at = 0.0
        self.attempts = 0
        self.producer: tuple[int, int] = (-1, -1)
        self.base_sequence = -1
        self.order = 0
        self.done = False
        self.error: Exception | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self._callbacks: list[Callable[[ProduceBatch], None]] = []
        self._event: threading.Event | None = None
        self._lock = threading.Lock()

    def encode(self, producer: tuple[int, int], base_sequence: int, codec: int, level: int | None) -> None:
        """Ends appending: the records become bytes that carry the producer's identity (KIP-98).

        Encoded bytes get another identity, and with it another CRC; compression is not repeated.
        """
        self.producer = producer
        self.base_sequence = base_sequence
        if self.builder is not None:
            self.encoded = self.builder.build(
                codec,
                level=level,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=base_sequence,
            )
            self.builder = None
        elif producer[0] >= 0:
            assert self.encoded is not None
            self.encoded = batches.with_producer(self.encoded, *producer, base_sequence)

    def finish(self, error: Exception | None, base_offset: int = -1, log_append_time_ms: int = -1) -> None:
        """Sets the outcome, wakes who waits and runs the callbacks."""
        with self._lock:
            if self.done:
                return
            self.error = error
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.encoded = None
            self.builder = None
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
            event = self._event
        if event is not None:
            event.set()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[ProduceBatch], None]) -> None:
        """A caller's mistake must not end the producer's thread, which other callers need."""
        try:
            callback(self)
        except Exception:
            _log.exception("a callback of a record for %s failed", self.partition)

    def when_done(self, callback: Callable[[ProduceBatch], None]) -> None:
        """Runs `callback` in the sender's thread, or here at once when it is done already."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until done; false when the time is over before that."""
        if self.done:
            return True
        with self._lock:
            if self.done:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout_s)


class RecordFuture:
    """The outcome of one `Producer.send`. Light: it shares everything with the other records of its batch."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProduceBatch, index: int, timestamp: int):
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went; waits for it at most `timeout` seconds.

        Raises:
            ClientTimeoutError: not known yet when the time was over.
            ClientError: the record could not be delivered.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    get = result

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Why the record could not be delivered, None when it was."""
        if not self._batch.wait(timeout):
            raise ClientTimeoutError(
                f"a record for {self._batch.partition} was not acknowledged within {timeout:g} s; "
                "delivery_timeout_ms bounds how long the producer goes on trying"
            )
        return self._batch.error

    def add_done_callback(self, callback: Callable[[RecordFuture], Any]) -> None:
        """Runs `callback(self)` when the outcome is known, in the sender's thread: it must be quick."""
        self._batch.when_done(lambda _: callback(self))

    def _metadata(self) -> RecordMetadata:
        batch = self._batch
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        timestamp = batch.log_append_time_ms if batch.log_append_time_ms >= 0 else self._timestamp
        return RecordMetadata(batch.partition.topic, batch.partition.partition, offset, timestamp)


class BatchesFuture:
    """The outcome of a bulk send: done when all of its batches are."""

    __slots__ = ("batches",)

    def __init__(self, sent: Sequence[ProduceBatch]):
        self.batches = sent

    def done(self) -> bool:
        """Whether every batch's outcome is known."""
        return all(batch.done for batch in self.batches)

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """First offset of each batch, in order; waits at most `timeout` seconds.

        Raises:
            ClientTimeoutError: not all known when the time was over.
            ClientError: of the first batch that could not be delivered.
        """
        self.await_all(timeout)
        for batch in self.batches:
            if batch.error is not None:
                raise batch.error
        return [
            RecordMetadata(*batch.partition, batch.base_offset, batch.log_append_time_ms)
            for batch in self.batches
        ]

    def await_all(self, timeout: float | None = None) -> None:
        """Waits until every batch has an outcome, good or bad.

        Raises:
            ClientTimeoutError: not within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for batch in self.batches:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not batch.wait(left):
                raise ClientTimeoutError(
                    f"batches for {batch.partition} were not acknowledged within {timeout:g} s"
                )

    def add_done_callback(self, callback: Callable[[ProduceBatch], Any]) -> None:
        """Runs `callback` for each batch as it is done, in the sender's thread."""
        for batch in self.batches:
            batch.when_done(callback)


class PartitionQueue:
    """The batches of one partition, oldest first, and its producer state.

    `in_flight` are sent and unanswered, `waiting` are to be sent. While a batch is sent again nothing newer
    is sent beside it, so that order survives retries.
    """

    __slots__ = (
        "_order",
        "epoch_bump",
        "in_flight",
        "last_error",
        "next_sequence",
        "partition",
        "producer",
        "waiting",
    )

    def __init__(self, partition: TopicPartition):
        self.partition = partition
        self.waiting: deque[ProduceBatch] = deque()
        self.in_flight: deque[ProduceBatch] = deque()
        self.producer: tuple[int, int] = (-1, -1)
        self.next_sequence = 0
        self.epoch_bump = False
        self.last_error: Exception | None = None
        self._order = 0

    def add(self, batch: ProduceBatch) -> None:
        """Puts a new batch last."""
        self._order += 1
        batch.order = self._order
        self.waiting.append(batch)

    def due_in_s(self, now: float, linger_s: float, batch_bytes: int, hurry: bool) -> float:
        """Seconds until the first waiting batch may go; infinite when an answer has to come before."""
        first = self.waiting[0]
        if self.in_flight and (
            first.attempts or self.epoch_bump or any(batch.attempts > 1 for batch in self.in_flight)
        ):
            return float("inf")
        if first.attempts:
            return max(0.0, first.retry_at - now)
        if hurry or len(self.waiting) > 1 or first.encoded is not None or first.size_bytes >= batch_bytes:
            return 0.0
        return max(0.0, first.created_at + linger_s - now)

    def put_back(self, batch: ProduceBatch) -> None:
        """A batch that failed waits again, before those that were sent after it."""
        self.in_flight.remove(batch)
        at = 0
        while at < len(self.waiting) and self.waiting[at].order < batch.order:
            at += 1
        self.waiting.insert(at, batch)

    def sequence(self, batch: ProduceBatch, producer: tuple[int, int]) -> tuple[tuple[int, int], int]:
        """Identity and sequence for a batch about to be sent.

        After a gap all that is left starts again in the next epoch (KIP-360).
        """
        if self.epoch_bump:  # due_in_s has seen to it that `batch` is alone
            self.producer = (self.producer[0], self.producer[1] + 1)
            self.next_sequence = 0
            self.epoch_bump = False
            for other in (batch, *self.waiting):
                other.base_sequence = -1
        if self.producer[0] != producer[0]:
            self.producer = producer
            self.next_sequence = 0
        if batch.base_sequence >= 0:
            return batch.producer, batch.base_sequence
        base_sequence = self.next_sequence
        self.next_sequence = (base_sequence + batch.record_count) & 0x7FFFFFFF
        return self.producer, base_sequence
