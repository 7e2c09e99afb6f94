"""Helpers that fill logs, clean them, and read the result."""

from typing import TYPE_CHECKING, NamedTuple

from bowstring._native.cleaner.cleaner import Cleaning
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.record.decode import decode_batches
from bowstring._native.server.recompress import recompress
from tests.support.log_batches import CONTROL, HEADER, NOW_MS, batch, headers, marker, open_log

if TYPE_CHECKING:
    from bowstring._native.cleaner.cleaner import CleaningFigures

DELETE_HORIZON = 0x40
DAY_MS = 86_400_000


class KeptBatch(NamedTuple):
    """The header of a batch in a log, and its records as (offset, timestamp, key, value)."""

    base_offset: int
    last_offset: int
    attributes: int
    producer_id: int
    epoch: int
    sequence: int
    leader_epoch: int
    horizon: int | None
    records: tuple[tuple[int, int, bytes | None, bytes | None], ...]


def compacted(directory, **config) -> PartitionLog:
    """Creates a log of small segments whose topic has cleanup.policy=compact."""
    settings = {
        "compacted": 1,
        "delete_enabled": 0,
        "segment_bytes": 2000,
        "index_interval_bytes": 200,
        "file_delete_delay_ms": 0,
    }
    directory.mkdir(exist_ok=True)
    return open_log(directory, **(settings | config))


def put(log: PartitionLog, pairs, *, codec=0, timestamp=NOW_MS, leader_epoch=0, **producer) -> int:
    """Appends one batch of (key, value) pairs; returns its base offset."""
    data = batch(
        [value for _, value in pairs], keys=[key for key, _ in pairs], timestamp=timestamp, **producer
    )
    offset = log.append(recompress(data, codec) if codec else data, leader_epoch, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return int(offset)


def end_transaction(log: PartitionLog, producer_id: int, *, abort: bool, epoch=0, timestamp=NOW_MS) -> int:
    """Appends the marker that ends a transaction; returns its offset."""
    offset = log.append(marker(producer_id, epoch, abort=abort, timestamp=timestamp), 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return int(offset)


def clean(
    log: PartitionLog, first_dirty=0, *, now=NOW_MS, retention_ms=DAY_MS, **settings
) -> "CleaningFigures":
    """Cleans everything that can be cleaned, in one run."""
    return Cleaning(
        log,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=log.last_stable_offset,
        now_ms=now,
        delete_retention_ms=retention_ms,
        **settings,
    ).run()


def stored(log: PartitionLog) -> bytes:
    """Returns every batch of the log, as stored in the files."""
    offset, pieces = log.log_start_offset, []
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, "log_end")
        if not piece:
            break
        pieces.append(piece)
        offset = headers(piece)[-1].last_offset + 1
    return b"".join(pieces)


def batches_of(log: PartitionLog) -> list[KeptBatch]:
    """Returns every batch of the log, in order."""
    found = []
    for each in headers(stored(log)):
        fields = HEADER.unpack_from(each.data)
        found.append(
            KeptBatch(
                each.base_offset,
                each.last_offset,
                each.attributes,
                fields[9],
                fields[10],
                fields[11],
                each.leader_epoch,
                fields[7] if each.attributes & DELETE_HORIZON else None,
                tuple((r.offset, r.timestamp, r.key, r.value) for r in decode_batches(each.data)),
            )
        )
    return found


def records_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Returns (offset, key, value) of every record that is not a marker."""
    return [
        (offset, key, value)
        for each in batches_of(log)
        if not each.attributes & CONTROL
        for offset, _, key, value in each.records
    ]


def newest(records):
    return {key: (offset, value) for offset, key, value in records}
