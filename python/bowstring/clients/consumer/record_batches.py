"""Scans and decodes fetched record batches natively, and adds the partition to errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring._native.record import compression
from bowstring._native.record import decode as native
from bowstring._native.record.batch_ends import end_of_first
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.consumer.partition_state import Chunk, PartitionState, Undecoded
from bowstring.clients.errors import CorruptBatchError
from bowstring.clients.records import Record, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.arrow.typed_values import DecoderPair


def scan(data: memoryview, partition: TopicPartition, offset: int) -> tuple[int, int, int]:
    """Returns size, next offset and record count of the complete batches at the start of `data`.

    Args:
        offset: the requested one.

    Raises:
        CorruptBatchError: the first batch is malformed or incomplete, or all end before `offset`.
    """
    try:
        found = native.scan(data, verify_crc=False)
    except CorruptBatch as error:
        raise CorruptBatchError(
            f"{partition} from offset {offset}: {error}; seek() to a later offset to continue"
        ) from error
    if found[0] == 0:
        raise CorruptBatchError(
            f"{partition} from offset {offset}: {len(data)} fetched bytes contain no complete batch"
        )
    if found[1] <= offset:  # continuing there would read the same again forever
        raise CorruptBatchError(
            f"{partition} from offset {offset}: the fetched batches end at offset {found[1]}, before it; "
            "seek() to a later offset to continue"
        )
    return found


def take_good(state: PartitionState, verify_crc: bool, partition: TopicPartition) -> Chunk:
    """Takes the oldest chunk; if it contains a bad batch, the part before it, and the rest stays buffered.

    Raises:
        CorruptBatchError: the chunk begins with a bad batch, which stays buffered.
    """
    chunk = state.chunks[0]
    if verify_crc and not chunk.checked:
        try:
            size, next_offset, count = native.scan(chunk.data)
        except CorruptBatch as error:
            raise undecodable(chunk, partition, error) from error
        if size < len(chunk.data):
            rest = chunk._replace(
                data=chunk.data[size:], offset=next_offset, record_count=chunk.record_count - count
            )
            state.keep_rest(rest)
            return chunk._replace(
                data=chunk.data[:size], next_offset=next_offset, record_count=count, checked=True
            )
        return state.take_chunk()._replace(checked=True)
    return state.take_chunk()


def decode(
    chunk: Chunk, partition: TopicPartition, limit: int
) -> tuple[list[Record], int, tuple[int, int], Chunk | None]:
    """Decodes the records of a chunk at or after its offset, up to the first bad batch.

    Args:
        limit: most bytes that a batch may decompress to.

    Returns:
        The records, the offset behind them, the smallest and largest of their timestamps, and the rest from
        the bad batch on.

    Raises:
        CorruptBatchError: records of the first batch are malformed or cannot be decompressed.
    """
    aborted = () if chunk.aborted is None else chunk.aborted
    try:
        records, size, next_offset, times = native.decode_good_records(
            Record, *partition, chunk.data, chunk.offset, aborted=aborted, limit=limit
        )
    except (CorruptBatch, compression.CompressionError) as error:
        raise undecodable(chunk, partition, error) from error
    if size >= len(chunk.data):
        return records, chunk.next_offset, times, None
    count = max(0, chunk.record_count - len(records))
    return (
        records,
        next_offset,
        times,
        chunk._replace(data=chunk.data[size:], offset=next_offset, record_count=count),
    )


def decode_objects(
    chunk: Chunk, partition: TopicPartition, limit: int, objects: DecoderPair, most: int
) -> tuple[list[Record], int, tuple[int, int], Chunk | None, list[Undecoded]]:
    """Does what `decode` does, with objects instead of keys and values, and not all at once: what lives long
    costs the garbage collector more than the decoder takes.

    Args:
        objects: decoders of keys and values; None for bytes.
        most: records to decode; more if a batch is compressed.

    Returns:
        Also the keys and values that do not decode, which stay bytes.
    """
    aborted = () if chunk.aborted is None else chunk.aborted
    try:
        records, size, next_offset, times, undecoded = native.decode_good_objects(
            Record, *partition, chunk.data, chunk.offset, *objects, most=most, aborted=aborted, limit=limit
        )
    except (CorruptBatch, compression.CompressionError) as error:
        raise undecodable(chunk, partition, error) from error
    rest = None
    if size < len(chunk.data):
        count = max(0, chunk.record_count - len(records))
        rest = chunk._replace(data=chunk.data[size:], offset=next_offset, record_count=count)
    else:
        next_offset = chunk.next_offset
    return records, next_offset, times, rest, [Undecoded(*each) for each in undecoded]


def undecodable(chunk: Chunk, partition: TopicPartition, error: Exception) -> CorruptBatchError:
    """Returns the error for a chunk that begins with a bad batch."""
    reason = compression.explained(error, "max_decompressed_batch_bytes")
    following = max(chunk.offset + 1, end_of_first(chunk.data) or 0)
    return CorruptBatchError(
        f"{partition} from offset {chunk.offset}: {reason}; seek() to {following} to continue"
    )
