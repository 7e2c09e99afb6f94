"""Produce in every version: acks, bad batches, sizes, timestamps, compression, idempotence."""

import functools
import gzip
import random
import re
import struct
import time
from typing import Any

from bowstring._native.record.compression import compress
from bowstring._native.record.encode import encode_batch
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk
from tests.support.reference_batch import Batch, encode, encode_records, seal
from tests.support.waiting import FOR_EVER_MS

NOBODYS_ID = bytes(range(16))
STAMP_MS = 1_700_000_000_000
# The same for both brokers.
NOW = int(time.time() * 1000)
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


def record(value: bytes | None = b"value", key: bytes | None = b"key", timestamp: int = STAMP_MS) -> Any:
    """A record of the reference codec."""
    return (key, value, timestamp, ())


def batch(*records: Any, **fields: Any) -> bytes:
    """A batch of the reference codec; one plain record by default."""
    return encode(Batch(records or (record(),), **fields))


def compressed(codec: int) -> bytes:
    """Two records in one of Kafka's codecs."""
    return encode_batch([(b"k", b"v" * 100, STAMP_MS, None), (b"k", b"w" * 100, STAMP_MS, None)], codec)


def produce(talk: Talk, note: str, topic: str, *data: tuple[int, bytes], **more: Any) -> Any:
    """Produces (partition, batches) to one topic, by name or by the name's id."""
    rows = [{"index": index, "records": records} for index, records in data]
    topics = [{"name": topic, "topic_id": talk.topic_ids.get(topic, NOBODYS_ID), "partition_data": rows}]
    fields = {"acks": -1, "timeout_ms": FOR_EVER_MS, "topic_data": topics} | more
    return talk.ask("Produce", talk.version, note=note, **fields)


def read(talk: Talk, note: str, topic: str, offset: int = 0, partition: int = 0) -> None:
    """What a consumer then reads from the partition."""
    rows = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    talk.ask(
        "Fetch", 12, note=note, max_wait_ms=0, min_bytes=0, topics=[{"topic": topic, "partitions": rows}]
    )


@conversation(versions("Produce"))
def test_acks(talk: Talk) -> None:
    topic = talk.topic("t", partitions=2)
    for acks in (-1, 1):
        produce(talk, f"acks {acks}", topic, (0, batch()), acks=acks)
    for acks in (2, -2, 100):
        produce(talk, f"acks {acks}", topic, (0, batch()), acks=acks)
    talk.send(
        "Produce",
        talk.version,
        acks=0,
        timeout_ms=5000,
        topic_data=[
            {
                "name": topic,
                "topic_id": talk.topic_ids[topic],
                "partition_data": [{"index": 0, "records": batch()}],
            }
        ],
    )
    produce(talk, "after acks 0", topic, (0, batch()), (1, batch()))
    read(talk, "in the end", topic)


@conversation(versions("Produce"))
def test_more_in_sync_replicas_asked_for_than_there_are_replicas(talk: Talk) -> None:
    topic = talk.topic("t", min_insync_replicas="2")
    for acks in (-1, 1):
        produce(talk, f"acks {acks}", topic, (0, batch()), acks=acks)


@conversation(versions("Produce"))
def test_acks_zero_with_errors(talk: Talk) -> None:
    """No answer can carry the error, so the broker closes the connection."""
    topic = talk.topic("t")
    for note, name, data in (
        ("unknown partition", topic, (7, batch())),
        ("unknown topic", talk.name("unknown"), (0, batch())),
        ("bad batch", topic, (0, batch()[:-1] + b"x")),
    ):
        rows = [{"index": data[0], "records": data[1]}]
        topics = [{"name": name, "topic_id": talk.topic_ids.get(name, NOBODYS_ID), "partition_data": rows}]
        talk.send("Produce", talk.version, acks=0, timeout_ms=5000, topic_data=topics)
        talk.ask("ApiVersions", 0, note=f"after {note}", unordered={"api_keys": "api_key"})


@conversation(versions("Produce"))
def test_what_is_not_there(talk: Talk) -> None:
    topic = talk.topic("t", partitions=2)
    produce(talk, "unknown topic", talk.name("unknown"), (0, batch()))
    produce(talk, "unknown partition", topic, (2, batch()), (0, batch()), (-1, batch()))
    # Null records are left out: Kafka trips over them and never answers.
    produce(talk, "empty records", topic, (0, b""))
    talk.ask("Produce", talk.version, note="no topics", acks=-1, timeout_ms=5000, topic_data=[])
    if talk.version < 13:
        produce(talk, "internal topic", "__consumer_offsets", (0, batch()))
        produce(talk, "bad name", "a b", (0, batch()))
        produce(talk, "empty name", "", (0, batch()))
    else:
        talk.topic_ids["zero"] = bytes(16)
        produce(talk, "zero id", "zero", (0, batch()))
    produce(talk, "no timeout", topic, (0, batch()), timeout_ms=0)
    produce(talk, "negative timeout", topic, (0, batch()), timeout_ms=-1)
    read(talk, "in the end", topic)


@conversation(versions("Produce"))
def test_bad_batches(talk: Talk) -> None:
    topic = talk.topic("t")
    good = batch(record(b"a"), record(b"b"))

    def ask(note: str, data: bytes) -> None:
        produce(talk, note, topic, (0, data))

    def patched(at: int, raw: bytes, *, of: bytes = good) -> bytes:
        return of[:at] + raw + of[at + len(raw) :]

    ask("wrong crc", patched(17, b"\0\0\0\0"))
    for magic in (0, 1, 3, -1):
        ask(f"magic {magic}", patched(16, struct.pack(">b", magic)))
    ask("two batches", good + good)
    ask("cut", good[:-1])
    ask("header only", good[:61])
    ask("half a header", good[:30])
    ask("one byte", good[:1])
    ask("length too long", patched(8, struct.pack(">i", len(good))))
    ask("length too short", patched(8, struct.pack(">i", 5)))
    ask("negative length", patched(8, struct.pack(">i", -1)))
    ask("base offset", batch(base_offset=5))
    ask("leader epoch", batch(leader_epoch=77))
    ask("no records", encode(Batch((), last_offset_delta=0, base_timestamp=STAMP_MS, max_timestamp=STAMP_MS)))
    ask("count zero", batch(record_count=0))
    ask("count too high", batch(record_count=3))
    ask("count too low", batch(record(), record(), record_count=1))
    ask("count negative", batch(record_count=-1))
    ask("last offset delta", batch(last_offset_delta=5))
    ask("last offset delta negative", batch(last_offset_delta=-1))
    ask("control", batch(attributes=0x20))
    ask("delete horizon", batch(attributes=0x40))
    ask("unused attributes", batch(attributes=0x80))
    raw = encode_records(Batch((record(),)))
    ask("gzip", seal(Batch((record(),), attributes=GZIP), gzip.compress(raw, mtime=0)))
    ask("producer without sequence", batch(producer_id=5, producer_epoch=0))
    read(talk, "in the end", topic)


@conversation(versions("Produce"))
def test_batches_that_only_one_takes(talk: Talk) -> None:
    """The differences are listed in `deliberate.py`; nothing is read afterwards, as the logs differ."""
    raw = encode_records(Batch((record(),)))
    for note, data in (
        ("trailing bytes", batch() + b"xx"),
        ("offset deltas", batch(record(), record(), offset_deltas=(0, 2))),
        ("offset deltas backwards", batch(record(), record(), offset_deltas=(1, 0))),
        ("transactional without producer", batch(attributes=0x10)),
        ("log append time", batch(attributes=0x08)),
        *((f"codec {codec}", batch(attributes=codec)) for codec in (5, 6, 7)),
        ("garbage as gzip", seal(Batch((record(),), attributes=GZIP), b"garbage")),
        (
            "gzip with more behind",
            seal(Batch((record(),), attributes=GZIP), gzip.compress(raw + b"x", mtime=0)),
        ),
        (
            "gzip with too few",
            seal(Batch((record(), record()), attributes=GZIP), gzip.compress(raw, mtime=0)),
        ),
    ):
        produce(talk, note, talk.topic(note.replace(" ", "-")), (0, data))


@conversation(versions("Produce"))
def test_partitions_named_twice_or_not_at_all(talk: Talk) -> None:
    topic = talk.topic("t")
    produce(talk, "no partitions", topic)
    produce(talk, "one partition twice", topic, (0, batch()), (0, batch()))


@conversation(versions("Produce"))
def test_sizes(talk: Talk) -> None:
    small, segment = (
        talk.topic("small", max_message_bytes="200"),
        talk.topic("segment", segment_bytes="1048576", max_message_bytes="5000000"),
    )
    for size in (50, 100, 131, 132, 133, 140, 1000):
        produce(talk, f"{size} bytes", small, (0, batch(record(b"x" * size))))
    produce(talk, "larger than a segment", segment, (0, batch(record(b"x" * 1_500_000))))
    produce(talk, "a good one beside", small, (0, batch()))
    produce(talk, "many small records", small, (0, batch(*[record(b"x" * 30)] * 10)))
    read(talk, "in the end", small)


@conversation(versions("Produce"))
def test_timestamps(talk: Talk) -> None:
    plain = talk.topic("plain")
    narrow = talk.topic(
        "narrow", message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="60000"
    )
    stamped = talk.topic("stamped", message_timestamp_type="LogAppendTime")
    for note, stamp in (("old", STAMP_MS), ("none", -1), ("negative", -5), ("zero", 0)):
        for topic in (plain, narrow, stamped):
            produce(talk, f"{note} to {topic}", topic, (0, batch(record(timestamp=stamp))))
    for note, delta in (("two hours ahead", 7_200_000), ("two hours ago", -7_200_000)):
        for topic in (plain, narrow, stamped):
            produce(talk, f"{note} to {topic}", topic, (0, batch(record(timestamp=NOW + delta))))
    produce(talk, "one of three", narrow, (0, batch(record(timestamp=NOW), record(), record(timestamp=NOW))))
    produce(
        talk,
        "max wrong",
        plain,
        (0, batch(record(), record(timestamp=STAMP_MS + 5), max_timestamp=STAMP_MS + 99)),
    )
    produce(talk, "max too low", plain, (0, batch(record(timestamp=STAMP_MS + 5), max_timestamp=STAMP_MS)))
    produce(talk, "max none", plain, (0, batch(max_timestamp=-1)))
    read(talk, "stamped", stamped)
    rows = [{"partition_index": 0, "timestamp": -3}]
    talk.ask(
        "ListOffsets",
        7,
        note="largest timestamp",
        replica_id=-1,
        topics=[{"name": plain, "partitions": rows}],
    )


def packed(attributes: int, *records: Any, **fields: Any) -> bytes:
    """A batch of the reference codec, its records in the codec that its attributes name."""
    made = Batch(records, attributes=attributes, **fields)
    return seal(made, compress(attributes & 7, encode_records(made)))


def told(answer: Any) -> list[tuple[int, list[str]]]:
    """Each refused record, with the numbers in its message that do not depend on time."""
    (part,) = answer.responses[0].partition_responses
    return [
        (
            each.batch_index,
            re.findall(rf"\b(?:{STAMP_MS}|{NOW + 7_200_000})\b", each.batch_index_error_message),
        )
        for each in part.record_errors
    ]


@conversation(versions("Produce", 8))
def test_several_records_out_of_time(talk: Talk) -> None:
    topic = talk.topic("t", message_timestamp_before_max_ms="3600000")
    ahead = record(timestamp=NOW + 7_200_000)
    for codec in (0, *CODECS):
        for note, records in (
            ("two of three", (record(), record(timestamp=NOW), record())),
            ("the last, and the first in time", (record(timestamp=NOW), record())),
            ("too early and too late", (record(timestamp=NOW), record(), ahead)),
            ("all", (ahead, ahead)),
            ("none", (record(timestamp=NOW), record(timestamp=-1))),
        ):
            talk.note(f"{note} in {codec}", told(produce(talk, note, topic, (0, packed(codec, *records)))))


@conversation(versions("Produce"))
def test_compression(talk: Talk) -> None:
    topic = talk.topic("t")
    for codec, name in CODECS.items():
        produce(talk, name, topic, (0, compressed(codec)))
    read(talk, "in the end", topic)


@conversation(versions("Produce", 7))
def test_compression_type_of_a_topic(talk: Talk) -> None:
    for wanted in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = talk.topic(wanted, compression_type=wanted)
        for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
            produce(talk, f"{codec} to {wanted}", topic, (0, compressed(codec)))
        rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        answer = talk.quietly(
            "Fetch", 12, max_wait_ms=0, min_bytes=0, topics=[{"topic": topic, "partitions": rows}]
        )
        data = bytes(answer.responses[0].partitions[0].records)
        # Compressed bytes depend on the library; Kafka guarantees that each batch has the topic's codec.
        codecs = []
        while data:
            codecs.append(data[22] & 7)
            data = data[12 + struct.unpack_from(">i", data, 8)[0] :]
        talk.note(f"codecs of {wanted}", codecs)


@conversation(versions("Produce"))
def test_compacted_topics_need_keys(talk: Talk) -> None:
    topic = talk.topic("t", cleanup_policy="compact")
    produce(talk, "with key", topic, (0, batch()))
    produce(talk, "without", topic, (0, batch(record(key=None))))
    produce(talk, "one of three without", topic, (0, batch(record(), record(key=None), record())))
    produce(talk, "empty key", topic, (0, batch(record(key=b""))))
    produce(talk, "null value", topic, (0, batch(record(value=None))))
    read(talk, "in the end", topic)


@conversation(versions("Produce"))
def test_every_refused_record_is_named(talk: Talk) -> None:
    """KIP-467: clients fail these records, and may send the others again."""
    keyless = [record(key=None if i % 10 == 0 else b"k", timestamp=NOW) for i in range(30)]
    many = [record(key=None if i % 3 else b"k", timestamp=NOW) for i in range(1200)]
    both = [*keyless, record(key=None), record()]
    topics: tuple[tuple[str, dict[str, Any]], ...] = (
        ("plain", {}),
        ("zipped", {"compression_type": "gzip"}),
        ("early", {"message_timestamp_before_max_ms": "3600000"}),
        ("stamped", {"message_timestamp_type": "LogAppendTime"}),
    )
    for name, configs in topics:
        topic = talk.topic(name, cleanup_policy="compact", **configs)
        for codec in (0, *CODECS):
            if codec == ZSTD and talk.version < 7:
                continue
            produce(talk, f"{name}, three of thirty in {codec}", topic, (0, packed(codec, *keyless)))
            produce(talk, f"{name}, two of three in {codec}", topic, (0, packed(codec, *many)))
            produce(talk, f"{name}, keys and times in {codec}", topic, (0, packed(codec, *both)))
            produce(talk, f"{name}, a good one in {codec}", topic, (0, packed(codec, record(timestamp=NOW))))


@conversation(versions("Produce"))
def test_log_append_time_of_a_producer(talk: Talk) -> None:
    for policy in ("delete", "compact"):
        topic = talk.topic(policy, message_timestamp_type="LogAppendTime", cleanup_policy=policy)
        for codec in (0, GZIP):
            for note, records in (
                ("keys", (record(), record())),
                ("one key", (record(), record(key=None))),
                ("no keys", (record(key=None), record(key=None))),
            ):
                produce(talk, f"{note} in {codec}", topic, (0, packed(codec | 0x08, *records)))


@conversation(versions("Produce", 7))
def test_sizes_after_recompression(talk: Talk) -> None:
    """The size limit applies to the batch as stored."""
    plain = talk.topic("plain", compression_type="uncompressed", max_message_bytes="2000")
    zipped = talk.topic("zipped", compression_type="gzip", max_message_bytes="2000")
    segment = talk.topic(
        "segment", compression_type="uncompressed", segment_bytes="1048576", max_message_bytes="5000000"
    )
    keyed = talk.topic(
        "keyed", compression_type="uncompressed", max_message_bytes="2000", cleanup_policy="compact"
    )
    noise = random.Random(1).randbytes(1990)
    for codec, name in CODECS.items():
        ask = functools.partial(produce, talk)
        ask(f"{name}, one record that fits", plain, (0, packed(codec, record(b"x" * 1900))))
        ask(f"{name}, one record too large", plain, (0, packed(codec, record(b"x" * 2000))))
        ask(f"{name}, ten records too large", plain, (0, packed(codec, *[record(b"x" * 200)] * 10)))
        ask(f"{name}, larger than a segment", segment, (0, packed(codec, record(b"x" * 1_500_000))))
        ask(f"{name}, and than a message", segment, (0, packed(codec, record(b"x" * 5_500_000))))
        keyless = [record(b"x" * 900, key=None if i == 3 else b"k") for i in range(5)]
        ask(f"{name}, too large and without a key", keyed, (0, packed(codec, *keyless)))
        ask(f"{name} to gzip", zipped, (0, packed(codec, record(b"x" * 9000))))
    produce(talk, "fits, but as gzip it does not", zipped, (0, batch(record(noise[:1915]))))
    read(talk, "in the end", plain)


@conversation(versions("Produce"))
def test_idempotence(talk: Talk) -> None:
    topic = talk.topic("t", partitions=2)
    made = talk.quietly("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000)
    own = made.producer_id

    def ask(
        note: str, sequence: int, count: int = 1, epoch: int = 0, producer: int = own, partition: int = 0
    ) -> None:
        data = batch(*[record()] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        produce(talk, note, topic, (partition, data))

    ask("gap at the start", 5)
    ask("first", 0)
    ask("again", 0)
    ask("second", 1, 3)
    ask("again", 1, 3)
    ask("again, shorter", 1, 2)
    ask("overlapping", 2, 2)
    ask("gap", 9)
    for sequence in range(4, 10):
        ask(f"sequence {sequence}", sequence)
    ask("second, forgotten", 1, 3)
    ask("fifth last", 5)
    ask("newer epoch, not from zero", 3, epoch=2)
    ask("newer epoch", 0, epoch=2)
    ask("older epoch", 10, epoch=0)
    ask("epoch between", 0, epoch=1)
    ask("other partition", 0, partition=1)
    ask("unknown producer", 0, producer=own + 100_000)
    ask("unknown producer, not from zero", 7, producer=own + 100_001)
    ask("negative sequence", -2)
    ask("negative epoch", 0, epoch=-1)
    ask("last sequence", 0x7FFFFFFF, epoch=3)
    data = [batch(producer_id=own, producer_epoch=5, base_sequence=each) for each in (0, 1)]
    produce(talk, "two batches", topic, (0, data[0] + data[1]))
    read(talk, "in the end", topic)


@conversation(versions("Produce"))
def test_wrapping_sequences(talk: Talk) -> None:
    topic = talk.topic("t")
    own = talk.quietly("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000).producer_id
    for note, sequence, count in (("last", 0x7FFFFFFE, 2), ("wrapped", 0, 1), ("across", 1, 1)):
        data = batch(*[record()] * count, producer_id=own, producer_epoch=0, base_sequence=sequence)
        produce(talk, note, topic, (0, data))


@conversation(versions("Produce"))
def test_transactional_ids(talk: Talk) -> None:
    topic = talk.topic("t")
    produce(talk, "plain batch", topic, (0, batch()), transactional_id="tx")
    data = batch(attributes=0x10, producer_id=123_456, producer_epoch=0, base_sequence=0)
    produce(talk, "transactional batch", topic, (0, data), transactional_id="tx")
    produce(talk, "transactional batch without id", topic, (0, data))
