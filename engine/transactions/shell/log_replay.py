"""Reads a partition of ``__transaction_state`` from its start to its end."""

from collections.abc import Callable

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring.engine.transactions.shard import TransactionShard


def replay_log(
    log: PartitionLog, shard: TransactionShard, go_on: Callable[[], bool], read_bytes: int
) -> None:
    """Passes the last record of each key to a shard that is loading, while `go_on` allows it. Runs on any
    thread.

    Reads up to the log end, not only to the high watermark: a leader never loses what it has.

    Raises:
        CorruptBatch, CompressionError, LogError: The log cannot be read.
    """
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    latest: dict[bytes | None, bytes | None] = {}
    while offset < end_offset and go_on():
        data = log.read(offset, read_bytes, "log_end")
        if not data:
            break  # compaction removed the rest, up to the end
        headers = batch_headers(data)
        if not any(header.control for header in headers):
            latest.update((record.key, record.value) for record in decode_batches(data))
        offset = headers[-1].last_offset + 1
    for key, value in latest.items():
        if value is not None:
            shard.replay(key, value)
