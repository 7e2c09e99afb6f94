"""A slow, obvious codec of record batches of magic 2: the oracle for the native code.

Written from the format's description, https://kafka.apache.org/documentation/#recordbatch, and from the order of
Kafka's checks. Nothing here is shared with the code under test.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
INVALID_TIMESTAMP = 32
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87

PREFIX = struct.Struct(">qi")  # base offset, length of the rest
AFTER_PREFIX = struct.Struct(">ibI")  # leader epoch, magic, CRC
UNDER_CRC = struct.Struct(">hiqqqhii")
HEADER_BYTES = PREFIX.size + AFTER_PREFIX.size + UNDER_CRC.size

Headers = tuple[tuple[str, bytes | None], ...]
# key, value, timestamp, headers
PlainRecord = tuple[bytes | None, bytes | None, int, Headers]


class Malformed(Exception):
    """The bytes are truncated, or contain an impossible length."""


# ---------------------------------------------------------------- CRC-32C


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# ---------------------------------------------------------------- varints


def to_varint(value: int, bits: int = 64) -> bytes:
    value = (value << 1 ^ value >> bits - 1) & (1 << bits) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        if n < 0 or n > len(self.data) - self.at:
            raise Malformed
        self.at += n
        return self.data[self.at - n : self.at]

    def varint(self, bits: int = 32) -> int:
        value = 0
        for shift in range(0, bits, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << bits) - 1
                return value >> 1 ^ -(value & 1)
        raise Malformed

    def field(self) -> bytes | None:
        n = self.varint()
        return None if n == -1 else self.take(n)

    def done(self) -> bool:
        return self.at == len(self.data)


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class Batch:
    records: tuple[PlainRecord, ...]
    base_offset: int = 0
    leader_epoch: int = -1
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    # None: computed from the records
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    record_count: int | None = None
    offset_deltas: tuple[int, ...] = field(default=())


def encode_record(record: PlainRecord, timestamp_delta: int, offset_delta: int) -> bytes:
    key, value, _, headers = record
    body = b"\x00" + to_varint(timestamp_delta) + to_varint(offset_delta, 32)
    for part in (key, value):
        body += to_varint(-1 if part is None else len(part), 32) + (part or b"")
    body += to_varint(len(headers), 32)
    for name, content in headers:
        raw = name.encode()
        body += to_varint(len(raw), 32) + raw
        body += to_varint(-1 if content is None else len(content), 32) + (content or b"")
    return to_varint(len(body), 32) + body


def encode_records(batch: Batch) -> bytes:
    base = batch.base_timestamp
    if base is None:
        base = batch.records[0][2] if batch.records else -1
    return b"".join(
        encode_record(record, record[2] - base, batch.offset_deltas[i] if batch.offset_deltas else i)
        for i, record in enumerate(batch.records)
    )


def encode(batch: Batch) -> bytes:
    return seal(batch, encode_records(batch))


def seal(batch: Batch, payload: bytes) -> bytes:
    """Returns a batch of encoded records, compressed or not."""
    timestamps = [record[2] for record in batch.records]
    under_crc = (
        UNDER_CRC.pack(
            batch.attributes,
            len(timestamps) - 1 if batch.last_offset_delta is None else batch.last_offset_delta,
            (timestamps[0] if timestamps else -1) if batch.base_timestamp is None else batch.base_timestamp,
            max(timestamps, default=-1) if batch.max_timestamp is None else batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(timestamps) if batch.record_count is None else batch.record_count,
        )
        + payload
    )
    after = AFTER_PREFIX.pack(batch.leader_epoch, 2, crc32c(under_crc)) + under_crc
    return PREFIX.pack(batch.base_offset, len(after)) + after


@dataclass(frozen=True)
class DecodedRecord:
    offset_delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def decode_records(payload: bytes, count: int, base_timestamp: int) -> list[DecodedRecord]:
    reader = Reader(payload)
    records = []
    for _ in range(count):
        record = Reader(reader.take(reader.varint()))
        record.take(1)
        timestamp_delta = record.varint(64)
        timestamp = (base_timestamp + timestamp_delta + (1 << 63)) % (1 << 64) - (1 << 63)
        offset_delta = record.varint()
        key, value = record.field(), record.field()
        headers = []
        count_of_headers = record.varint()
        if count_of_headers < 0:
            raise Malformed
        for _ in range(count_of_headers):
            name = record.take(record.varint()).decode("utf-8", "surrogateescape")
            headers.append((name, record.field()))
        if not record.done():
            raise Malformed
        records.append(DecodedRecord(offset_delta, timestamp, key, value, tuple(headers)))
    if not reader.done():
        raise Malformed
    return records


def decode(data: bytes) -> tuple[Batch, list[DecodedRecord]]:
    """Decodes one complete uncompressed batch to header and records; raises Malformed for other bytes."""
    if len(data) < HEADER_BYTES:
        raise Malformed
    base_offset, length = PREFIX.unpack_from(data)
    leader_epoch, magic, crc = AFTER_PREFIX.unpack_from(data, PREFIX.size)
    fields = UNDER_CRC.unpack_from(data, PREFIX.size + AFTER_PREFIX.size)
    if length + PREFIX.size != len(data) or magic != 2:
        raise Malformed
    if crc != crc32c(data[PREFIX.size + AFTER_PREFIX.size :]):
        raise Malformed
    names = (
        *("attributes", "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id"),
        *("producer_epoch", "base_sequence", "record_count"),
    )
    header = replace(Batch((), base_offset, leader_epoch), **dict(zip(names, fields, strict=True)))
    return header, decode_records(data[HEADER_BYTES:], fields[-1], fields[2])


# ---------------------------------------------------------------- validation


@dataclass(frozen=True)
class Rules:
    max_message_bytes: int = 1048588
    key_required: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3600000


def validate(data: bytes, rules: Rules, now_ms: int) -> tuple[int, list[int]]:
    """Returns (Kafka error code or 0, indices of the bad records) for an uncompressed batch from a client."""
    if len(data) < PREFIX.size:
        return INVALID_RECORD, []
    base_offset, length = PREFIX.unpack_from(data)
    if length < 14:
        return CORRUPT_MESSAGE, []
    if len(data) > 16 and data[16] != 2:
        return (CORRUPT_MESSAGE if data[16] > 2 else INVALID_RECORD), []
    if length + PREFIX.size != len(data):
        return INVALID_RECORD, []
    if len(data) < HEADER_BYTES:
        return CORRUPT_MESSAGE, []
    if base_offset != 0:
        return INVALID_RECORD, []
    if len(data) > rules.max_message_bytes:
        return MESSAGE_TOO_LARGE, []
    crc = AFTER_PREFIX.unpack_from(data, PREFIX.size)[2]
    if crc != crc32c(data[PREFIX.size + AFTER_PREFIX.size :]):
        return CORRUPT_MESSAGE, []
    fields = UNDER_CRC.unpack_from(data, PREFIX.size + AFTER_PREFIX.size)
    attributes, last_offset_delta, base_timestamp, _, producer_id, _, base_sequence, count = fields
    if last_offset_delta < 0 or count <= 0 or last_offset_delta + 1 != count:
        return INVALID_RECORD, []
    if (
        attributes & 0x20
        or (producer_id >= 0 and base_sequence < 0)
        or (attributes & 0x10 and producer_id < 0)
    ):
        return INVALID_RECORD, []
    if attributes & 7 > 4:
        return UNSUPPORTED_COMPRESSION_TYPE, []
    assert attributes & 7 == 0, "the oracle decompresses nothing"
    return validate_records(
        data[HEADER_BYTES:], count, base_timestamp, rules, now_ms, stamped=bool(attributes & 8)
    )


def validate_records(
    payload: bytes, count: int, base_timestamp: int, rules: Rules, now_ms: int, *, stamped: bool = False
) -> tuple[int, list[int]]:
    reader = Reader(payload)
    errors = []
    for index in range(count):
        try:
            start = reader.at
            size = reader.varint()
            reader.take(size)
            record = decode_records(payload[start : reader.at], 1, base_timestamp)[0]
        except Malformed:
            return INVALID_RECORD, []
        if record.offset_delta != index:
            return INVALID_RECORD, [index]
        if rules.key_required and record.key is None:
            errors.append((INVALID_RECORD, index))
        earliest = now_ms - rules.timestamp_before_max_ms
        latest = now_ms + rules.timestamp_after_max_ms
        checked = not rules.log_append_time and record.timestamp != -1
        late = checked and not earliest <= record.timestamp <= latest
        if (stamped or late) and not (rules.key_required and record.key is None):
            errors.append((INVALID_TIMESTAMP, index))
    if not reader.done():
        return INVALID_RECORD, []
    if not errors:
        return 0, []
    timestamp = any(code == INVALID_TIMESTAMP for code, _ in errors)
    return (INVALID_TIMESTAMP if timestamp else INVALID_RECORD), [index for _, index in errors]
