"""Invalid record batches: Kafka's error for the partition, nothing stored, the connection kept."""

import struct
import zlib

import pytest

from tests.support.reference_batch import crc32c
from tests.support.reference_batch import to_varint as varint
from tests.support.waiting import FOR_EVER_MS, HANG_S
from tests.support.wire import (
    PRODUCE,
    batch,
    fetch,
    produce,
    produce_answer,
    record,
    request,
    string,
)
from tests.system.bad_input.victim import SOUND, Victim

NONE, CORRUPT_MESSAGE, INVALID_REQUIRED_ACKS = 0, 2, 21
UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 3, 76, 87
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43

V = record(b"v")
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def old_message() -> bytes:
    """A magic-1 message set, from before Kafka 0.11."""
    body = struct.pack(">bbqii", 1, 0, 0, -1, 1) + b"v"
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def body_of(record_body: bytes) -> bytes:
    return varint(len(record_body)) + record_body


BAD = {
    "wrong CRC": (batch(V, 1, crc=0), {CORRUPT_MESSAGE}),
    "flipped bit in a record": (SOUND[:-2] + bytes([SOUND[-2] ^ 1]) + SOUND[-1:], {CORRUPT_MESSAGE}),
    "length shorter than a header": (batch(V, 1, length=10), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "negative length": (batch(V, 1, length=-1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length beyond the data": (batch(V, 1, length=5000), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "batch cut off": (SOUND[:-5], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "header cut off": (SOUND[:30], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "no batch at all": (b"", {INVALID_RECORD, CORRUPT_MESSAGE}),
    "two batches": (SOUND + SOUND, {INVALID_RECORD}),
    "magic 1": (old_message(), {INVALID_RECORD, UNSUPPORTED_FOR_MESSAGE_FORMAT}),
    "magic 3": (batch(V, 1, magic=3), {INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT}),
    "magic -1": (batch(V, 1, magic=-1), {INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT}),
    "more records counted than held": (batch(V, 2), {INVALID_RECORD, CORRUPT_MESSAGE}),
    "fewer records counted than held": (
        batch(V + record(b"w", None, 1), 1),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    "no records": (batch(b"", 0, last_offset_delta=0), {INVALID_RECORD}),
    "negative record count": (batch(V, -1, last_offset_delta=0), {INVALID_RECORD, CORRUPT_MESSAGE}),
    "two billion records": (batch(V, 0x7FFFFFFF), {INVALID_RECORD, CORRUPT_MESSAGE}),
    "last offset delta beyond the count": (
        batch(V, 1, last_offset_delta=7),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    # Kafka's parser fails with UNKNOWN_SERVER_ERROR.
    "record length that does not end": (batch(b"\xff" * 12, 1), {INVALID_RECORD, CORRUPT_MESSAGE, -1}),
    "record length beyond the batch": (batch(varint(1000) + b"\0" * 6, 1), {INVALID_RECORD, CORRUPT_MESSAGE}),
    "negative record length": (batch(varint(-5) + b"\0" * 6, 1), {INVALID_RECORD, CORRUPT_MESSAGE}),
    "key longer than its record": (
        batch(body_of(b"\0" + varint(0) * 2 + varint(1000) + b"k" + varint(-1) + varint(0)), 1),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    "record longer than its fields": (
        batch(body_of(b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(0) + b"rest"), 1),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    "negative header count": (
        batch(body_of(b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(-1)), 1),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    "two billion headers": (
        batch(body_of(b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(0x7FFFFFFF)), 1),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    "header key of negative length": (
        batch(body_of(b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(1) + varint(-1) + varint(-1)), 1),
        {INVALID_RECORD, CORRUPT_MESSAGE},
    ),
    "control batch from a client": (batch(V, 1, attributes=0x20), {INVALID_RECORD}),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_batch_is_refused_and_not_stored(victim: Victim, name: str) -> None:
    data, codes = BAD[name]
    before = victim.log_end()
    with victim.connect() as wire:
        answer = wire.ask(produce(victim.topic, data))
        assert answer is not None, "the broker closed the connection"
        code, _ = produce_answer(answer, victim.topic)
        assert code in codes, f"error {code}"
        assert victim.log_end() == before
        sound = wire.ask(produce(victim.topic, SOUND))
        assert sound is not None
        assert produce_answer(sound, victim.topic) == (NONE, before)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_compressed_bytes_that_do_not_decompress(victim: Victim, codec: int) -> None:
    """Kafka decompresses and refuses the batch; Bowstring passes compressed batches through unopened.

    Either way, the broker keeps serving, and accepted bytes come back as they were sent.
    """
    topic = f"garbage-{codec}"
    victim.create(topic)
    garbage = batch(b"this is not compressed at all", 1, attributes=codec)
    with victim.connect() as wire:
        answer = wire.ask(produce(topic, garbage))
        assert answer is not None
        code, _ = produce_answer(answer, topic)
        if code == NONE:
            read = wire.ask(fetch(topic, 0))
            assert read is not None
            assert read.endswith(garbage[16:])


def test_zstd_before_version_7(victim: Victim) -> None:
    with victim.connect() as wire:
        answer = wire.ask(produce(victim.topic, batch(V, 1, attributes=ZSTD)))
        assert answer is not None
        assert produce_answer(answer, victim.topic)[0] == UNSUPPORTED_COMPRESSION_TYPE


def test_unknown_codec(victim: Victim) -> None:
    before = victim.log_end()
    with victim.connect() as wire:
        answer = wire.ask(produce(victim.topic, batch(V, 1, attributes=7)))
        # Kafka cannot interpret the codec and may answer an error or close.
        assert answer is None or produce_answer(answer, victim.topic)[0] != NONE
    assert victim.log_end() == before


def test_null_records(victim: Victim) -> None:
    before = victim.log_end()
    with victim.connect(timeout_s=HANG_S if victim.terse else 3.0) as wire:
        wire.send(produce(victim.topic, None))
        try:
            answer = wire.receive()
        except TimeoutError:
            # Kafka 4.3.1 never answers this one.
            assert not victim.terse
        else:
            assert answer is None or produce_answer(answer, victim.topic)[0] in {
                INVALID_RECORD,
                CORRUPT_MESSAGE,
            }
    assert victim.log_end() == before


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_that_do_not_exist(victim: Victim, acks: int) -> None:
    with victim.connect() as wire:
        answer = wire.ask(produce(victim.topic, SOUND, acks=acks))
        assert answer is not None
        assert produce_answer(answer, victim.topic)[0] == INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("partition", [1, -1, 0x7FFFFFFF])
def test_partition_that_does_not_exist(victim: Victim, partition: int) -> None:
    with victim.connect() as wire:
        answer = wire.ask(produce(victim.topic, SOUND, partition=partition))
        assert answer is not None
        assert produce_answer(answer, victim.topic)[0] == UNKNOWN_TOPIC_OR_PARTITION


def test_bad_batch_with_acks_0_closes_the_connection(victim: Victim) -> None:
    """Without an answer to carry the error, a close makes the producer refresh its metadata, as in Kafka."""
    before = victim.log_end()
    with victim.connect() as wire:
        wire.send(produce(victim.topic, batch(V, 1, crc=0), acks=0))
        assert wire.closed()
    assert victim.log_end() == before


def test_one_bad_partition_does_not_fail_the_others(victim: Victim) -> None:
    before = victim.log_end()
    bad = batch(V, 1, crc=1)
    rows = string(victim.topic) + struct.pack(">ii", 1, 0) + struct.pack(">i", len(SOUND)) + SOUND
    rows += string("missing topic!") + struct.pack(">ii", 1, 0) + struct.pack(">i", len(bad)) + bad
    body = string(None) + struct.pack(">hii", 1, FOR_EVER_MS, 2) + rows
    with victim.connect() as wire:
        answer = wire.ask(request(PRODUCE, 3, body))
        assert answer is not None
        codes = []
        at = 8
        for _ in range(2):
            (length,) = struct.unpack_from(">h", answer, at)
            at += 2 + length + 4
            codes.append(struct.unpack_from(">ih", answer, at)[1])
            at += 4 + 2 + 8 + 8
        assert sorted(codes) in ([0, 3], [0, 17])
    assert victim.log_end() == before + 1


def test_the_reference_checksum_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
