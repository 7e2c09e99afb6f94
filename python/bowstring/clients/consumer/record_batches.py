"""Scans and decodes fetched record batches natively, and adds the partition to errors."""

from __future__ import annotations

from bowstring._native.record import compression
from bowstring._native.record import decode as native
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.consumer.partition_state import Chunk, PartitionState
from bowstring.clients.errors import CorruptBatchError
from bowstring.clients.records import Record, TopicPartition


def scan(data: memoryview, verify_crc: bool, partition: TopicPartition) -> tuple[int, int, int]:
    """Returns size, next offset and record count of the complete, valid batches at the start of `data`.

    Raises:
        CorruptBatchError: the first batch is malformed, fails its CRC-32C, or is incomplete.
    """
    try:
        found = native.scan(data, verify_crc=verify_crc)
    except CorruptBatch as error:
        raise CorruptBatchError(f"{partition}: {error}; seek() past it to continue") from error
    if found[0] == 0:
        raise CorruptBatchError(f"{partition}: {len(data)} fetched bytes contain no complete batch")
    return found


def take_good(state: PartitionState, verify_crc: bool, partition: TopicPartition) -> Chunk:
    """Takes the oldest chunk; if it contains a bad batch, the part before it, and the rest stays buffered.

    Raises:
        CorruptBatchError: the chunk begins with a bad batch, which stays buffered.
    """
    chunk = state.chunks[0]
    if verify_crc:
        size, next_offset, count = scan(chunk.data, True, partition)
        if size < len(chunk.data):
            rest = chunk._replace(
                data=chunk.data[size:], offset=next_offset, record_count=chunk.record_count - count
            )
            state.keep_rest(rest)
            return chunk._replace(data=chunk.data[:size], next_offset=next_offset, record_count=count)
    return state.take_chunk()


def decode(chunk: Chunk, partition: TopicPartition, limit: int) -> list[Record]:
    """Returns the records of a chunk at or after its offset.

    Args:
        limit: most bytes that a batch may decompress to.

    Raises:
        CorruptBatchError: records are malformed or cannot be decompressed.
    """
    aborted = () if chunk.aborted is None else chunk.aborted
    try:
        return native.decode_records(
            Record, *partition, chunk.data, chunk.offset, aborted=aborted, limit=limit
        )
    except (CorruptBatch, compression.CompressionError) as error:
        raise undecodable(chunk, partition, error) from error


def undecodable(chunk: Chunk, partition: TopicPartition, error: Exception) -> CorruptBatchError:
    """Returns the error for a chunk whose records cannot be decoded."""
    reason = compression.explained(error, "max_decompressed_batch_bytes")
    return CorruptBatchError(
        f"{partition} from offset {chunk.offset}: {reason}; seek() past {chunk.next_offset - 1} to continue"
    )
