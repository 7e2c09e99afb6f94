"""Reads a partition of ``__consumer_offsets`` from its start to its end."""

from collections.abc import Callable
from typing import Final

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.types import BatchHeader
from bowstring._native.record.types import Record as BatchRecord
from bowstring.engine.groups.replay import NO_PRODUCER, Replay

# Decoding so much holds the GIL for about a millisecond.
READ_BYTES: Final = 1 << 17

_TRANSACTIONAL_OR_CONTROL: Final = 0x30
# types of control records: the third and fourth byte of their key
_ABORT_MARKER: Final = 0
_COMMIT_MARKER: Final = 1


def replay_log(
    log: PartitionLog, replay: Replay, go_on: Callable[[], bool], read_bytes: int = READ_BYTES
) -> None:
    """Passes every record of a log to the shard while `go_on` allows it. Runs on any thread, because the
    shard is loading. Reads `read_bytes` at once.

    Reads up to the log end, not only to the high watermark: a leader never loses what it has.

    Raises:
        CorruptBatch, CompressionError, LogError: The log cannot be read.
    """
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    while offset < end_offset and go_on():
        data = log.read(offset, read_bytes, "log_end")
        if not data:
            break  # compaction removed the rest, up to the end
        headers = batch_headers(data)
        records = decode_batches(data)
        if any(header.attributes & _TRANSACTIONAL_OR_CONTROL for header in headers):
            _replay_batch_by_batch(headers, records, replay)
        elif records:
            offsets, _, _, keys, values, _, _ = zip(*records, strict=True)
            replay.add(offsets, keys, values)
        offset = headers[-1].last_offset + 1
    replay.flush(go_on)


def _replay_batch_by_batch(headers: list[BatchHeader], records: list[BatchRecord], replay: Replay) -> None:
    first = 0
    for header in headers:
        batch = records[first : first + header.record_count]
        first += header.record_count
        if header.control:
            for record in batch:
                marker = int.from_bytes((record.key or b"")[2:4], "big")
                if marker in (_ABORT_MARKER, _COMMIT_MARKER):
                    replay.end_transaction(header.producer_id, commit=marker == _COMMIT_MARKER)
            continue
        producer_id = header.producer_id if header.transactional else NO_PRODUCER
        replay.add(
            [record.offset for record in batch],
            [record.key for record in batch],
            [record.value for record in batch],
            producer_id,
        )
