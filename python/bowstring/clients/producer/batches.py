"""Batches as the sender and callers see them.

_native/client/accumulator.pyx does the work for each record.

Ownership: the GIL guards what callers and the sender share (see _native/client/accumulator.pxd). A batch that
the sender took belongs to it until the batch is done; its outcome is then read by any thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from bowstring._native.client.producer_batch import Batch, RecordFuture
from bowstring.clients.errors import ClientTimeoutError
from bowstring.clients.records import RecordMetadata

__all__ = ["BatchesFuture", "ProduceBatch", "RecordFuture"]

_log = logging.getLogger("bowstring.producer")


class ProduceBatch(Batch):
    """One record batch: open for appending, then sealed, then done.

    Attributes:
        base_sequence: sequence number of its first record, -1 until it is given one.
        attempts: how often it was sent.
        order: its place among the batches of its partition.
        base_offset: where it went, once done without error.
    """

    __slots__ = ()

    def call(self, callback: Callable[[Any], None], argument: Any) -> None:
        """Runs a callback. A caller's mistake must not end the thread, which other callers need."""
        try:
            callback(argument)
        except Exception:
            _log.exception("a callback of a record for %s failed", self.partition)

    def call_last(self, callback: Callable[[Any], None], argument: Any) -> None:
        """As `call`, in the sender's thread: nothing may end that, not even `sys.exit`."""
        try:
            callback(argument)
        except BaseException:
            _log.exception("a callback of a record for %s failed", self.partition)

    def metadata(self, index: int, timestamp: int) -> RecordMetadata:
        """The place of the record at `index`; `timestamp` is the one from its sender."""
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        told = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, told)

    def timed_out(self, timeout_s: float) -> ClientTimeoutError:
        """The error after a wait of `timeout_s` for a record of this batch."""
        return ClientTimeoutError(
            f"a record for {self.partition} was not acknowledged within {timeout_s:g} s; "
            "delivery_timeout_ms bounds how long the producer goes on trying"
        )


class BatchesFuture:
    """The outcome of a bulk send: done when all of its batches are."""

    __slots__ = ("batches",)

    def __init__(self, sent: Sequence[Batch]):
        self.batches = sent

    def done(self) -> bool:
        """Whether every batch's outcome is known."""
        return all(batch.done for batch in self.batches)

    @property
    def record_count(self) -> int:
        """Records in all batches together."""
        return sum(batch.record_count for batch in self.batches)

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """First offset of each batch, in order; waits at most `timeout` seconds.

        Raises:
            ClientTimeoutError: not all known when the time was over.
            ClientError: of the first batch that could not be delivered.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return [batch.metadata(0, -1) for batch in self.batches]

    get = result

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Why the first batch that could not be delivered could not, None when all were.

        Raises:
            ClientTimeoutError: not all known when the time was over.
        """
        self.await_all(timeout)
        return next((batch.error for batch in self.batches if batch.error is not None), None)

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

    def __repr__(self) -> str:
        size = f"{self.record_count} records in {len(self.batches)} batches"
        if not self.done():
            return f"<BatchesFuture of {size}, pending>"
        error = self.exception(0)
        return f"<BatchesFuture of {size}, {'sent' if error is None else f'failed: {error}'}>"

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Runs `callback` for each batch as it is done, in the sender's thread."""
        for batch in self.batches:
            batch.when_done(callback, batch)
