"""Reads a partition of an internal topic from its start to its end."""

from collections.abc import Callable, Iterator

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring._native.record.types import Record


def batches_of(log: PartitionLog, go_on: Callable[[], bool], read_bytes: int) -> Iterator[list[Record]]:
    """Yields the records of a log, some batches at a time, without control batches, while `go_on` allows it.
    Runs on any thread.

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
        plain = [header for header in headers if not header.control]
        if len(plain) == len(headers):
            yield decode_batches(data)
        else:  # an admin client may end a transaction in any partition
            for header in plain:
                yield decode_batches(data[header.position : header.position + header.size_bytes])
        offset = headers[-1].last_offset + 1
