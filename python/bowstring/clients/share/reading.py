"""Implements ShareConsumer's polls: as records, and as columns of Arrow."""

from __future__ import annotations

import array
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bowstring._native.record.compression import CompressionError
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.arrow.arrow_format import COLUMNS, ArrowFormat, pyarrow
from bowstring.clients.choices import Layout, TimestampUnit
from bowstring.clients.errors import ClientError, UndecodableRecordError
from bowstring.clients.share.decode import (
    Unreadable,
    decode,
    divide,
    reject,
    take_out,
    unreadable,
)
from bowstring.clients.share.fetcher import Delivered, ShareFetcher
from bowstring.clients.share.held import RELEASED, HeldRecords
from bowstring.clients.share.records import Acknowledgement, ShareRecord
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.timeouts import most_records, seconds
from bowstring.clients.undecodable_policy import OnUndecodable, UndecodablePolicy, UndecodableRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring._native.arrow.decode import ArrowRows
    from bowstring.clients.arrow.typed_values import ObjectDecoders, ValueFormat

DELIVERY_COUNT = "delivery_count"
SHARE_COLUMNS = (*COLUMNS, DELIVERY_COUNT)
ROWS_MAX = (1 << 31) - 2
BYTES_MAX = (1 << 31) - 1
ITERATION_WAIT_S = 1.0
_ADVICE = (
    "the group delivers it again, up to share.delivery.count.limit times; reject it in explicit mode, or set "
    'on_undecodable="skip" or a DeadLetter'
)

_log = logging.getLogger("bowstring.share")

# The delivered records, how many rows each of their ranges has, and their bad batches.
Taken = list[tuple[Delivered, list[int], list[Unreadable]]]


class ShareReading:
    """Mixed into ShareConsumer, which provides the connections."""

    _check_crcs: bool
    _max_decompressed_batch_bytes: int
    _fetcher: ShareFetcher
    _held: HeldRecords
    _max_poll_records: int
    _owner: SingleThread
    _begin_poll: Callable[[], None]
    _await_delivered: Callable[[float], None]
    _postponed: tuple[ClientError, ...] = ()
    _formats: dict[str, ValueFormat] = {}  # noqa: RUF012 — never changed
    _objects: ObjectDecoders | None = None
    _undecodables: UndecodablePolicy
    subscription: Callable[[], set[str]]

    def _prepare_values(
        self, key: ValueFormat | str | None, value: ValueFormat | str | None, on_undecodable: OnUndecodable
    ) -> None:
        formats = {"key": key, "value": value}
        if key is not None or value is not None:
            from bowstring.clients.arrow.typed_values import ObjectDecoders, named_format

            made = {name: named_format(form) for name, form in formats.items()}
            self._formats = {name: form for name, form in made.items() if form is not None}
            self._objects = ObjectDecoders(made["key"], made["value"])
        self._undecodables = UndecodablePolicy(on_undecodable, _log)

    def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> list[ShareRecord]:
        """Returns records that the group gives to this consumer; waits for the first up to `timeout` seconds.

        In implicit mode the call accepts the records of the poll before. In explicit mode those must be
        acknowledged.

        Args:
            timeout: seconds to wait for the first record; None or -1 waits without limit.
            max_records: most records; later polls return the others that have arrived, unless their lock
                ends before. None: whole batches, see acquire_mode.

        Raises:
            ConfigError: explicit mode, and a record of the poll before is not acknowledged.
            CorruptBatchError: a batch fails its CRC or cannot be decoded; its records are rejected. Records
                of other batches came with the poll before.
            UndecodableRecordError: a key or value does not decode with the consumer's format; the other
                records came with the poll before. The next request releases the record, unless it is
                acknowledged in explicit mode.
            ClientError: an error that another poll cannot solve.
        """
        most = None if max_records is None else most_records(max_records, 1)
        deadline = time.monotonic() + seconds(timeout)
        with self._owner:
            self._begin_poll()
            self._raise_postponed()
            records: list[ShareRecord] = []
            while not records and not self._postponed:
                self._await_delivered(deadline)
                if not self._fetcher.delivered:
                    break
                records = self._take_records(most)
                if time.monotonic() >= deadline:
                    break
            if not records:
                self._raise_postponed()
            return records

    def _take_records(self, most: int | None) -> list[ShareRecord]:
        """Takes arrived records, at most `most`; deals with those that do not decode."""
        records: list[ShareRecord] = []
        enough = self._max_poll_records if most is None else most
        while self._fetcher.delivered and len(records) < enough:
            delivered = self._fetcher.delivered.popleft()
            if delivered.decoded is None:
                try:
                    delivered = self._decode(delivered)
                except BaseException as error:  # of a registry, for instance; the next poll tries again
                    self._fetcher.delivered.appendleft(delivered)
                    if records and isinstance(error, Exception):
                        break
                    self._held.say_rest(Acknowledgement.RELEASE)
                    raise
            elif time.monotonic() >= delivered.until:
                continue  # the broker gives them to others
            assert delivered.decoded is not None
            if most is not None and len(records) + len(delivered.decoded) > most:
                delivered, rest = divide(delivered, most - len(records))
                self._fetcher.delivered.appendleft(rest)
            self._hold(delivered)
            records += delivered.decoded or ()
        return records

    def _decode(self, delivered: Delivered) -> Delivered:
        objects = None if self._objects is None else self._objects.of(delivered.partition.topic)
        found = decode(delivered, self._check_crcs, self._max_decompressed_batch_bytes, objects)
        self._postponed += tuple(found.errors)
        if found.undecodable:
            kind = self._pass_over(found.undecodable)
            for each in found.undecodable:
                own = take_out(delivered.ranges, each.record.offset)
                own.said = bytearray([kind])
                self._held.add(delivered.partition, own)
        return delivered._replace(decoded=found.records)

    def _pass_over(self, found: list[UndecodableRecord]) -> int:
        """Applies the policy; returns what is said about the records."""
        policy = self._undecodables
        if policy.raises:
            self._postponed += tuple(UndecodableRecordError(*each, advice=_ADVICE) for each in found)
            return RELEASED
        try:
            policy.pass_over(found)
        except ClientError as error:  # of the dead-letter topic
            self._postponed += (error,)
            return RELEASED
        return Acknowledgement.REJECT if policy.skips else Acknowledgement.ACCEPT

    def undecodable_counts(self) -> dict[str, int]:
        """Records that did not decode and were passed: "skipped" and "dead_lettered"."""
        passed = self._undecodables
        return {"skipped": passed.skipped, "dead_lettered": passed.dead_lettered}

    def poll_arrow(
        self,
        timeout: float | None = 1.0,
        *,
        columns: Iterable[str] | None = None,
        layout: Layout = "binary",
        timestamp_unit: TimestampUnit = "ms",
    ) -> pa.RecordBatch:
        """Returns the same as one batch of columns; `acknowledge` takes it as a whole, or its rows by a mask.

        Args:
            timeout: seconds to wait for the first record; None or -1 waits without limit.
            columns: names from topic, partition, offset, timestamp, timestamp_type, key, value, headers and
                delivery_count, in the requested order; None for all of them.
            layout: "binary" or "binary_view", see `Consumer.poll_arrow`.
            timestamp_unit: "ms" or "us".

        Returns:
            A pyarrow.RecordBatch, without rows when no records came.

        Raises:
            MissingPackageError: pyarrow is not installed.
            ConfigError: a name of a column is unknown; or as `poll` does.
            CorruptBatchError, ClientError: as `poll` does.
        """
        names = SHARE_COLUMNS if columns is None else tuple(columns)
        formats = self._bound_formats(names)
        names_read = names
        if "headers" not in names and any(hasattr(each, "decode_records") for each in formats.values()):
            names_read = (*names, "headers")
        plain = ["offset", *(name for name in names_read if name not in ("offset", DELIVERY_COUNT))]
        form = ArrowFormat(plain, layout, timestamp_unit)
        rows = form.rows(ROWS_MAX, BYTES_MAX)
        topics: dict[str, int] = {}
        counts = array.array("h")
        taken: Taken = []
        deadline = time.monotonic() + seconds(timeout)
        with self._owner:
            self._begin_poll()
            self._raise_postponed()
            self._await_delivered(deadline)
            for delivered in self._take_delivered():
                number = topics.setdefault(delivered.partition.topic, len(topics))
                taken.append((delivered, *self._append(rows, delivered, number)))
                for held, size in zip(delivered.ranges, taken[-1][1], strict=True):
                    counts.extend(array.array("h", [held.delivery_count]) * size)
            batch = form.batch(rows, tuple(topics))
            self._note_gaps(batch.column(0), taken)
            if not batch.num_rows:
                self._raise_postponed()
        found = _with_counts(batch, counts, names_read)
        return self._typed(found, names, formats) if formats else found

    def _bound_formats(self, names: Iterable[str]) -> dict[str, Any]:
        """Returns the formats of columns, for the topics that are subscribed."""
        if not self._formats:
            return {}
        from bowstring.clients.arrow.typed_values import format_for

        topics = tuple(sorted(self.subscription()))
        return {name: format_for(form, topics, name) for name, form in self._formats.items() if name in names}

    def _typed(
        self, batch: pa.RecordBatch, names: tuple[str, ...], formats: dict[str, Any]
    ) -> pa.RecordBatch:
        """Decodes keys and values; records that are not returned are released."""
        from bowstring.clients.arrow.typed_values import TypedColumns

        try:
            wanted = batch.select(list(names)).schema
            return TypedColumns(wanted, formats).batch(batch)
        except BaseException:
            with self._owner:
                self._held.say_rest(Acknowledgement.RELEASE)
            raise

    def _append(
        self, rows: ArrowRows, delivered: Delivered, number: int
    ) -> tuple[list[int], list[Unreadable]]:
        """Appends the acquired records; returns how many rows each range has, and the bad batches."""
        sizes: list[int] = []
        bad: dict[int, Unreadable] = {}  # by position: a batch may be met for several ranges
        for held in delivered.ranges:
            before, at, offset = rows.rows, 0, held.first
            while at < len(delivered.data) and offset <= held.last:
                data = delivered.data[at:]
                try:
                    size, offset, _ = rows.append(
                        data,
                        offset,
                        held.last + 1,
                        topic=number,
                        partition=delivered.partition.partition,
                        verify_crc=self._check_crcs,
                        limit=self._max_decompressed_batch_bytes,
                    )
                except (CorruptBatch, CompressionError) as error:
                    found = bad.setdefault(at, unreadable(delivered, data, offset, error))
                    size, offset = found.size_bytes, max(offset, found.last + 1)
                if not size:
                    break  # the rest is incomplete
                at += size
            sizes.append(rows.rows - before)
        return sizes, list(bad.values())

    def _note_gaps(self, offsets: pa.Array, taken: Taken) -> None:
        at = 0
        for delivered, sizes, bad in taken:
            for held, size in zip(delivered.ranges, sizes, strict=True):
                if size == len(held.said):
                    held.has_all()
                else:
                    held.has(offsets.slice(at, size).to_pylist())
                at += size
            self._postponed += tuple(reject(delivered, bad))
            self._hold(delivered)

    # ------------------------------------------------------------ taking arrived records

    def _take_delivered(self) -> Iterator[Delivered]:
        """Yields arrived records until one poll has enough."""
        count = 0
        while self._fetcher.delivered and count < self._max_poll_records:
            delivered = self._fetcher.delivered.popleft()
            count += delivered.record_count
            yield delivered

    def _hold(self, delivered: Delivered) -> None:
        for held in delivered.ranges:
            self._held.add(delivered.partition, held)

    def _raise_postponed(self) -> None:
        """Raises the first error that records came before."""
        if self._postponed:
            first, *others = self._postponed
            self._postponed = tuple(others)
            raise first

    def __iter__(self) -> Iterator[ShareRecord]:
        """Yields records without end; ends when the consumer is closed meanwhile. Each poll's records are
        accepted, or must be acknowledged, before the next poll's are yielded.
        """
        while not self._owner.closed:
            yield from self.poll(ITERATION_WAIT_S)


def _with_counts(batch: pa.RecordBatch, counts: array.array[int], names: tuple[str, ...]) -> pa.RecordBatch:
    pa = pyarrow()
    field = pa.field(DELIVERY_COUNT, pa.int16())
    column = pa.Array.from_buffers(pa.int16(), len(counts), [None, pa.py_buffer(counts.tobytes())])
    arrays = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    fields = {each.name: each for each in batch.schema}
    arrays[DELIVERY_COUNT], fields[DELIVERY_COUNT] = column, field
    return pa.RecordBatch.from_arrays(
        [arrays[n] for n in names], schema=pa.schema([fields[n] for n in names])
    )
