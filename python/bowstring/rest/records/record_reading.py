"""Reads records for an answer, piece by piece. Blocks: for a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bowstring._native.rest.record_lines import RecordLines
from bowstring.clients.consumer.range_reader import BoundedConsumer
from bowstring.clients.consumer.read_bounds import ranges
from bowstring.clients.errors import NoBrokerError
from bowstring.clients.records import TopicPartition
from bowstring.rest.records.record_query import ARROW, COLUMNS, EVENTS, RecordQuery
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.rest.options import RestOptions
    from bowstring.rest.records.decoded_records import DecodedRecords

PIECE_ROWS = 8192
TOPIC_S = 2.0
POLL_S = 1.0
_NO_END = (1 << 62) - 1
_ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end of a stream in Arrow's IPC format."""


class RecordReading:
    """Records of one request. `pieces` yields the body; b"" stands for a second without records.

    Args:
        settings: of Consumer; they act as the caller.
        options: of the proxy.
        query: what is asked for.
        fetch_bytes: how many bytes are fetched ahead.
        decoded: decodes keys and values for lines; None: nothing does.

    Raises:
        HttpError: 404, a partition does not exist.
        ClientError: the cluster cannot be reached, or refuses.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        options: RestOptions,
        query: RecordQuery,
        fetch_bytes: int,
        decoded: DecodedRecords | None = None,
    ):
        self._query, self._decoded = query, decoded
        self._piece_bytes = max(1, fetch_bytes // 4)
        given = {
            **settings,
            "isolation_level": "read_committed" if query.read_committed else "read_uncommitted",
            "prefetch_max_bytes": fetch_bytes,
            "fetch_max_bytes": fetch_bytes,
            "max_partition_fetch_bytes": max(64 << 10, fetch_bytes // 4),
            "default_timeout_ms": int(options.timeout_s * 1000),
            "idle_timeout_ms": int(options.timeout_s * 2000),
        }
        if not _has_offsets(query.start):
            given["auto_offset_reset"] = "earliest"
        bootstrap = given.pop("bootstrap_servers")
        self._consumer = BoundedConsumer(bootstrap, {}, **given)
        try:
            self._ranges = self._found()
            self._consumer.restrict(self._ranges)
        except BaseException:
            self._consumer.close()
            raise

    def _found(self) -> dict[TopicPartition, tuple[int, int]]:
        query, consumer = self._query, self._consumer
        try:  # wait less for a missing topic than for a broker
            there = consumer.partitions_for(query.topic, TOPIC_S)
        except NoBrokerError:
            there = consumer.partitions_for(query.topic)
        missing = set(query.partitions or ()) - {each.partition for each in there}
        if missing:
            raise HttpError(
                404, 40402, f"Partition not found: {query.topic} has no partition {min(missing)}."
            )
        chosen = [each for each in there if query.partitions is None or each.partition in query.partitions]
        if query.form != EVENTS:
            return ranges(consumer, chosen, query.start, query.end)
        # `ranges` leaves out partitions without records in the range; a tail waits for some.
        found = {each: bounds[0] for each, bounds in ranges(consumer, chosen, query.start, "latest").items()}
        ends = consumer.end_offsets(chosen)
        return {each: (found.get(each, ends[each]), _NO_END) for each in chosen}

    def pieces(self) -> Iterator[bytes]:
        """Yields the body, in pieces of some thousand records; closes the connections at the end."""
        try:
            if self._query.form == ARROW:
                yield from self._arrow()
            elif self._query.form == EVENTS:
                yield from self._events()
            else:
                yield from self._lines()
        finally:
            self._consumer.close()

    def close(self) -> None:
        """Closes the connections, if `pieces` was never called."""
        self._consumer.close()

    def _batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        left = self._query.limit
        for found in self._consumer.batches(PIECE_ROWS, columns=columns, max_bytes=self._piece_bytes):
            batch = found if left is None else found.slice(0, left)
            yield batch
            left = None if left is None else left - batch.num_rows
            if left == 0:
                return

    def _lines(self) -> Iterator[bytes]:
        lines = RecordLines(self._query.form, self._query.key, self._query.value)
        head = lines.head()  # comes with records, so that the first piece says whether they can be read
        for batch in self._batches(COLUMNS):
            for piece in self._pieces(batch):
                yield head + lines.lines(piece)
                head = b""
        if head:
            yield head

    def _pieces(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Returns the batches of a batch once its keys and values are decoded, if that is wanted."""
        return (batch,) if self._decoded is None else self._decoded.pieces(batch)

    def _arrow(self) -> Iterator[bytes]:
        # Without the column of topics there are no dictionaries: each message stands for itself.
        columns = self._query.columns
        yield self._consumer.arrow_schema(columns=columns).serialize().to_pybytes()
        for batch in self._batches(columns):
            yield batch.serialize().to_pybytes()
        yield _ARROW_END

    def _events(self) -> Iterator[bytes]:
        lines = RecordLines(EVENTS, self._query.key, self._query.value)
        positions = {each.partition: bounds[0] for each, bounds in self._ranges.items()}
        yield b"retry: 3000\n\n"
        left = self._query.limit
        while left is None or left > 0:
            batch = self._consumer.poll_arrow(
                POLL_S, max_records=PIECE_ROWS, max_bytes=self._piece_bytes, columns=COLUMNS
            )
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if not batch.num_rows:
                yield b""
                continue
            assert self._consumer.taken_from is not None
            number = self._consumer.taken_from.partition
            for piece in self._pieces(batch):
                positions[number] = piece.column(1)[piece.num_rows - 1].as_py() + 1
                place = ",".join(f"{each}:{offset}" for each, offset in sorted(positions.items()))
                yield lines.lines(piece, f"id: {place}\n".encode())


def _has_offsets(bounds: Any) -> bool:
    given = bounds.values() if hasattr(bounds, "values") else [bounds]
    return any(isinstance(bound, int) for bound in given)
