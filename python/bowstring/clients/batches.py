"""Record batches as the clients handle them: native loops, and errors that name the partition."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from bowstring._native import client as native
from bowstring._native import compression
from bowstring._native.record_types import CorruptBatch
from bowstring.clients.errors import ConfigError, CorruptBatchError
from bowstring.clients.positions import Chunk, PartitionState
from bowstring.clients.records import Record, TopicPartition

# Room a record takes besides key and value, near enough for deciding when a buffer is full.
RECORD_OVERHEAD_BYTES = 24
_RECORD_COUNT_OFFSET = 57


def codec_number(name: str) -> int:
    """Kafka's number of a compression codec.

    Raises:
        ConfigError: there is none of this name.
    """
    try:
        return compression.codec_number(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def scan(data: memoryview, verify_crc: bool, partition: TopicPartition) -> tuple[int, int, int]:
    """Bytes of the whole and good batches at the beginning of `data`, the offset after them, and how many
    records their headers tell.

    Raises:
        CorruptBatchError: already the first batch is malformed or fails its CRC-32C, or is not whole.
    """
    try:
        found = native.scan(data, verify_crc=verify_crc)
    except CorruptBatch as error:
        raise CorruptBatchError(f"{partition}: {error}; seek() past it to go on") from error
    if found[0] == 0:
        raise CorruptBatchError(f"{partition}: {len(data)} bytes were fetched that hold no whole batch")
    return found


def take_good(state: PartitionState, verify_crc: bool, partition: TopicPartition) -> Chunk:
    """The oldest chunk; of one with a bad batch what comes before it, and the rest stays.

    Raises:
        CorruptBatchError: it begins with a bad batch; it stays then.
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


def decode(chunk: Chunk, partition: TopicPartition) -> list[Record]:
    """The records of a chunk at or after its offset.

    Raises:
        CorruptBatchError: records are malformed or do not decompress.
    """
    aborted = () if chunk.aborted is None else chunk.aborted
    try:
        return native.decode_records(Record, *partition, chunk.data, chunk.offset, aborted=aborted)
    except (CorruptBatch, compression.CompressionError) as error:
        raise undecodable(chunk, partition, error) from error


def undecodable(chunk: Chunk, partition: TopicPartition, error: Exception) -> CorruptBatchError:
    """The error for a chunk whose records cannot be read."""
    return CorruptBatchError(
        f"{partition} from offset {chunk.offset}: {error}; seek() past {chunk.next_offset - 1} to go on"
    )


def with_counts(encoded: Iterable[bytes]) -> list[tuple[bytes, int]]:
    """Encoded batches with the record counts of their headers."""
    return [(batch, struct.unpack_from(">i", batch, _RECORD_COUNT_OFFSET)[0]) for batch in encoded]


def with_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """The batch with this producer's identity (KIP-98)."""
    return native.with_producer(batch, producer_id, producer_epoch, base_sequence)
