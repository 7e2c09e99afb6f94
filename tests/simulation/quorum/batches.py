"""Snapshots and records of the simulated state machine, in real batches."""

import hashlib

from bowstring._native.protocol.message_codec import encode
from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring._native.record.types import CorruptBatch
from bowstring.protocol.records.control import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from bowstring.protocol.records.control_batch import ControlRecordType, decode_control_key, encode_control_key

EMPTY = b"\0" * 8


class SnapshotDamaged(Exception):
    """A snapshot without its header, its footer or a good CRC."""


def next_digest(digest, value):
    """The state of the state machine after another record: a hash over all of them, in order."""
    return hashlib.blake2b(digest + value, digest_size=8).digest()


def _control(kind, message):
    return encode_control_key(kind), encode(message, 0)


def snapshot(id, control_records, digest):
    """Returns the bytes of a snapshot of the state with this digest."""
    head = [
        _control(ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(version=0)),
        *control_records,
    ]
    foot = [_control(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    out, offset = [], 0
    for entries, control in ((head, True), ([(None, digest)], False), (foot, True)):
        rows = [(key, value, 0, None) for key, value in entries]
        out.append(encode_batch(rows, base_offset=offset, leader_epoch=id.epoch, control=control))
        offset += len(rows)
    return b"".join(out)


def bootstrap_snapshot(voters):
    """Returns the bytes of the snapshot that formatting writes with `voters` in the log."""
    records = [
        _control(ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=1)),
        (encode_control_key(ControlRecordType.KRAFT_VOTERS), encode(voters.to_record(), 0)),
    ]
    head = [_control(ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(version=0)), *records]
    foot = [_control(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    first = encode_batch([(key, value, 0, None) for key, value in head], base_offset=0, control=True)
    last = encode_batch([(key, value, 0, None) for key, value in foot], base_offset=len(head), control=True)
    return first + last


def read_snapshot(data):
    """Returns the digest in a snapshot; that of the empty state when there is none.

    Raises:
        SnapshotDamaged: It is not whole.
    """
    try:
        records = decode_batches(data)
    except CorruptBatch as error:
        raise SnapshotDamaged(str(error)) from error
    if not records or not (records[0].control and records[-1].control):
        raise SnapshotDamaged("no header or no footer")
    if decode_control_key(records[-1].key or b"") is not ControlRecordType.SNAPSHOT_FOOTER:
        raise SnapshotDamaged("no footer")
    values = [each.value for each in records if not each.control]
    return values[0] if values else EMPTY
