"""Implements ShareConsumer's methods that acknowledge delivered records, one by one or by columns."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from bowstring.clients.arrow.arrow_format import pyarrow
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.records import TopicPartition
from bowstring.clients.share.fetcher import ShareFetcher
from bowstring.clients.share.held import HeldRecords
from bowstring.clients.share.records import Acknowledgement, OnAcknowledged, Outcome, ShareRecord
from bowstring.clients.single_thread import SingleThread

if TYPE_CHECKING:
    import pyarrow as pa

# A record, several, or a batch of `poll_arrow`.
Records = Any


class Acknowledging:
    """Mixed into ShareConsumer, which provides the connections."""

    _explicit: bool
    _fetcher: ShareFetcher
    _held: HeldRecords
    _on_acknowledged: OnAcknowledged | None
    _owner: SingleThread
    _wait: Callable[[float], None]

    if TYPE_CHECKING:

        def _seconds(self, timeout: float | None) -> float: ...

    def acknowledge(
        self,
        records: ShareRecord | Iterable[ShareRecord] | pa.RecordBatch,
        kind: Acknowledgement = Acknowledgement.ACCEPT,
        *,
        mask: Any = None,
        offsets: Any = None,
    ) -> None:
        """Acknowledges delivered records. The next poll or commit sends it to the brokers.

        Args:
            records: a record, several records, or a batch of `poll_arrow`, which needs its columns topic,
                partition and offset.
            kind: ACCEPT, RELEASE, REJECT or RENEW.
            mask: of a batch: only its rows for which this array of booleans is true.
            offsets: of a batch: only its rows with one of these offsets, an array or a list.

        Raises:
            ConfigError: the acknowledgement mode is implicit; or a record is not held, or is acknowledged
                already.
        """
        if not self._explicit:
            raise ConfigError(
                "the next poll accepts records: set acknowledgement_mode='explicit' to acknowledge them"
            )
        with self._owner:
            if isinstance(records, ShareRecord):
                place = TopicPartition(records.topic, records.partition)
                self._held.say(place, records.offset, records.offset, kind)
            elif hasattr(records, "schema"):
                for partition, first, last in _runs(_chosen(records, mask, offsets)):
                    self._held.say(partition, first, last, kind)
            else:
                for record in cast("Iterable[ShareRecord]", records):
                    place = TopicPartition(record.topic, record.partition)
                    self._held.say(place, record.offset, record.offset, kind)

    def accept(self, records: Records, *, mask: Any = None, offsets: Any = None) -> None:
        """Acknowledges records as done.

        Args:
            records, mask, offsets: as for `acknowledge`.
        """
        self.acknowledge(records, Acknowledgement.ACCEPT, mask=mask, offsets=offsets)

    def release(self, records: Records, *, mask: Any = None, offsets: Any = None) -> None:
        """Gives records back: the group delivers them again, up to share.delivery.count.limit times.

        Args:
            records, mask, offsets: as for `acknowledge`.
        """
        self.acknowledge(records, Acknowledgement.RELEASE, mask=mask, offsets=offsets)

    def reject(self, records: Records, *, mask: Any = None, offsets: Any = None) -> None:
        """Acknowledges records that cannot be processed: they are never delivered again, and go to
        the group's errors.deadletterqueue.topic.name if it has one (KIP-1191).

        Args:
            records, mask, offsets: as for `acknowledge`.
        """
        self.acknowledge(records, Acknowledgement.REJECT, mask=mask, offsets=offsets)

    def renew(self, records: Records, *, mask: Any = None, offsets: Any = None) -> None:
        """Keeps records for another lock duration (KIP-1222); accept, release or reject them later.

        Args:
            records, mask, offsets: as for `acknowledge`.
        """
        self.acknowledge(records, Acknowledgement.RENEW, mask=mask, offsets=offsets)

    @property
    def lock_timeout_ms(self) -> int:
        """Milliseconds for which delivered records stay with this consumer; 0 before the first answer."""
        return self._fetcher.lock_timeout_ms

    def commit_sync(self, timeout: float | None = None) -> dict[TopicPartition, ClientError | None]:
        """Sends acknowledgements and waits until brokers have stored them; returns errors by partition.

        In implicit mode it accepts the records of the last poll.

        Args:
            timeout: seconds to wait; None for default_timeout_ms.

        Returns:
            For each partition with acknowledgements None, or why they were not stored. Such records may be
            delivered again.
        """
        with self._owner:
            self._accept_implicitly()
            self._fetcher.speak(self._wait, time.monotonic() + self._seconds(timeout))
            found: dict[TopicPartition, ClientError | None] = {}
            for outcome in self._tell_outcomes():
                found[outcome.partition] = outcome.error or found.get(outcome.partition)
            return found

    def commit_async(self) -> None:
        """Sends acknowledgements without waiting; on_acknowledged gets the results during later calls.

        In implicit mode it accepts the records of the last poll.
        """
        with self._owner:
            self._accept_implicitly()
            self._fetcher.start(fetch=False)
            self._wait(0.0)

    def _accept_implicitly(self) -> None:
        if not self._explicit:
            self._held.say_rest(Acknowledgement.ACCEPT)

    def _tell_outcomes(self) -> list[Outcome]:
        """Calls the listener with the brokers' results, and returns them."""
        found = []
        while self._fetcher.outcomes:
            outcome = self._fetcher.outcomes.popleft()
            found.append(outcome)
            if self._on_acknowledged is not None and outcome.offsets:
                with self._owner.lent():
                    self._on_acknowledged(outcome)
        return found


def _chosen(batch: pa.RecordBatch, mask: Any, offsets: Any) -> pa.RecordBatch:
    pa = pyarrow()
    missing = [name for name in ("topic", "partition", "offset") if name not in batch.schema.names]
    if missing:
        raise ConfigError(f"the batch has no column {missing[0]!r}: give it to poll_arrow(columns=…)")
    batch = batch.select(["topic", "partition", "offset"])
    if mask is not None:
        array = mask if isinstance(mask, pa.Array | pa.ChunkedArray) else pa.array(mask, pa.bool_())
        batch = batch.filter(array)
    if offsets is not None:
        import pyarrow.compute as pc

        wanted = offsets if isinstance(offsets, pa.Array) else pa.array(offsets, pa.int64())
        batch = batch.filter(pc.is_in(batch.column(batch.schema.names.index("offset")), wanted))
    return batch


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yields partitions with the first and last offset of each run of rows with consecutive offsets."""
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    names = batch.schema.names
    topics, partitions, offsets = (
        batch.column(names.index(each)) for each in ("topic", "partition", "offset")
    )
    numbers = topics.indices if hasattr(topics, "indices") else topics.dictionary_encode().indices
    breaks = pc.not_equal(pc.pairwise_diff(offsets), 1)
    for column in (numbers, partitions):
        breaks = pc.or_(breaks, pc.not_equal(pc.pairwise_diff(column), 0))
    starts = [0, *pc.indices_nonzero(pc.fill_null(breaks, False)).to_pylist(), batch.num_rows]
    for start, end in itertools.pairwise(starts):
        place = TopicPartition(topics[start].as_py(), partitions[start].as_py())
        yield place, offsets[start].as_py(), offsets[end - 1].as_py()
