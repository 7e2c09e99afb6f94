"""Turns what a share fetch delivered into records; notes offsets without one and unreadable batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bowstring._native.record import compression
from bowstring._native.record import decode as native
from bowstring._native.record.batch_ends import batch_bytes, end_of_first
from bowstring._native.record.types import CorruptBatch
from bowstring.clients.errors import CorruptBatchError
from bowstring.clients.records import Record
from bowstring.clients.share.fetcher import Delivered
from bowstring.clients.share.held import HeldRange
from bowstring.clients.share.records import ShareRecord
from bowstring.clients.undecodable_policy import UndecodableRecord

if TYPE_CHECKING:
    from bowstring.clients.arrow.typed_values import DecoderPair


class Unreadable(NamedTuple):
    """A batch that cannot be read.

    Attributes:
        size_bytes: of the batch; all that follows, if its length is wrong.
        first, last: its offsets that are not passed yet, both included; none if `last` is smaller.
        error: why.
    """

    size_bytes: int
    first: int
    last: int
    error: CorruptBatchError


class Decoded(NamedTuple):
    """What was delivered.

    Attributes:
        records: the acquired records that decode, in order.
        undecodable: the others, with the bytes of their keys and values.
        errors: of batches that cannot be read.
    """

    records: list[ShareRecord]
    undecodable: list[UndecodableRecord]
    errors: list[CorruptBatchError]


def decode(delivered: Delivered, verify_crc: bool, limit: int, objects: DecoderPair | None = None) -> Decoded:
    """Decodes what was delivered, and notes in its ranges at which offsets there are records.

    The records of a batch that cannot be read are rejected; those of the batches around it are returned.

    Args:
        limit: most bytes that a batch may decompress to.
        objects: decoders of keys and values; None for bytes.
    """
    records: list[Record] = []
    undecoded: dict[int, tuple[str, str]] = {}  # by offset
    bad: list[Unreadable] = []
    data, offset = delivered.data, delivered.ranges[0].first
    while data:
        try:
            good, size, offset, _, faults = native.decode_good_objects(
                Record,
                *delivered.partition,
                data,
                offset,
                *(objects or (None, None)),
                verify_crc=verify_crc,
                limit=limit,
            )
        except (CorruptBatch, compression.CompressionError) as error:
            bad.append(unreadable(delivered, data, offset, error))
            size, offset = bad[-1].size_bytes, max(offset, bad[-1].last + 1)
        else:
            records += good
            for at, field, reason in faults:
                undecoded.setdefault(good[at].offset, (field, reason))
        if not size:
            break  # the rest is incomplete
        data = data[size:]
    found: list[ShareRecord] = []
    at = 0
    for held in delivered.ranges:
        while at < len(records) and records[at].offset < held.first:
            at += 1
        begin = at
        while at < len(records) and records[at].offset <= held.last:
            at += 1
        part = records[begin:at]
        if len(part) == len(held.said):
            held.has_all()
        else:
            held.has(record.offset for record in part)
        found += [ShareRecord(*record, held.delivery_count) for record in part]
    errors = reject(delivered, bad)
    if not undecoded:
        return Decoded(found, [], errors)
    wrong = [UndecodableRecord(each, *undecoded[each.offset]) for each in found if each.offset in undecoded]
    return Decoded([each for each in found if each.offset not in undecoded], wrong, errors)


def take_out(ranges: list[HeldRange], offset: int) -> HeldRange:
    """Removes one offset from ranges in ascending order, and returns it as a range of its own."""
    at = next(i for i, held in enumerate(ranges) if held.first <= offset <= held.last)
    own = ranges[at].cut(offset)
    rest = own.cut(offset + 1)
    kept = [held for held in (ranges[at], rest) if held.said]
    ranges[at : at + 1] = kept
    return own


def divide(delivered: Delivered, count: int) -> tuple[Delivered, Delivered]:
    """Divides decoded records after the first `count`; there are more."""
    assert delivered.decoded is not None
    bound = delivered.decoded[count].offset
    before = [held for held in delivered.ranges if held.first < bound]
    after = [held for held in delivered.ranges if held.first >= bound]
    if before and before[-1].last >= bound:
        after.insert(0, before[-1].cut(bound))
    return (
        delivered._replace(ranges=before, decoded=delivered.decoded[:count]),
        delivered._replace(ranges=after, decoded=delivered.decoded[count:]),
    )


def unreadable(delivered: Delivered, data: memoryview, offset: int, error: Exception) -> Unreadable:
    """Returns the error for the bad batch at the start of `data`, which is read from `offset` on."""
    following, size = end_of_first(data), batch_bytes(data)
    if following is None:
        following, size = delivered.ranges[-1].last + 1, len(data)
    reason = compression.explained(error, "max_decompressed_batch_bytes")
    return Unreadable(
        size,
        offset,
        following - 1,
        CorruptBatchError(
            f"{delivered.partition} from offset {offset} to {following - 1}: {reason}; the records are "
            "rejected, so that the group goes on after them"
        ),
    )


def reject(delivered: Delivered, bad: list[Unreadable]) -> list[CorruptBatchError]:
    """Rejects the delivered records of bad batches; returns the errors of batches that had some."""
    errors = []
    for each in bad:
        parts = [held for held in delivered.ranges if each.first <= held.last and held.first <= each.last]
        for held in parts:
            held.reject(each.first, each.last)
        if parts:
            errors.append(each.error)
    return errors
