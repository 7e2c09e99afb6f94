"""The clients' native loops, held against batches from the encoder and from hand-made bytes."""

import gc
import struct

import pytest

from bowstring._native.base.object_decoder import ObjectDecoder
from bowstring._native.record import decode as native
from bowstring._native.record.batch_ends import end_of_first
from bowstring._native.record.compression import CompressionError
from bowstring._native.record.encode import BatchBuilder, encode_batch, with_producer
from bowstring._native.record.encode_columns import binary_column
from bowstring._native.record.types import CorruptBatch
from bowstring._native.values.json_objects import AnyJsonObjects, TextObjects
from bowstring.clients.consumer import record_batches as batches
from bowstring.clients.consumer.partition_state import Chunk, PartitionState
from bowstring.clients.errors import ConfigError, CorruptBatchError
from bowstring.clients.producer import encoded_batches
from bowstring.clients.records import Record, TopicPartition

P = TopicPartition("t", 1)


def batch(values, base_offset=0, **fields):
    return encode_batch(
        [(b"k", value, 1000 + i, []) for i, value in enumerate(values)], base_offset=base_offset, **fields
    )


def decoded(data, offset=0, aborted=()):
    return native.decode_records(Record, "t", 1, data, offset, aborted=aborted)


def test_scan_tells_bytes_next_offset_and_records():
    data = batch([b"a", b"b"]) + batch([b"c"], base_offset=2)
    assert native.scan(data) == (len(data), 3, 3)
    assert native.scan(data + batch([b"d"], base_offset=3)[:-1]) == (len(data), 3, 3)
    assert native.scan(b"") == (0, -1, 0)


def test_scan_refuses_a_flipped_bit_unless_told_not_to_look():
    data = bytearray(batch([b"abc"]))
    data[-2] ^= 1
    with pytest.raises(CorruptBatch, match=r"CRC"):
        native.scan(data)
    assert native.scan(data, verify_crc=False)[2] == 1


def test_decode_skips_what_is_before_the_offset():
    data = batch([b"a", b"b", b"c"], base_offset=10)
    assert [r.offset for r in decoded(data, 11)] == [11, 12]
    record = decoded(data, 12)[0]
    assert record == Record("t", 1, 12, 1002, 0, b"k", b"c", ())
    assert isinstance(record, Record)


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_decodes(codec):
    values = [b"value %d" % i for i in range(50)]
    builder = BatchBuilder()
    for value in values:
        builder.append(None, value, 5, [("h", b"1"), ("n", None)])
    data = builder.build(codec)
    records = decoded(data)
    assert [r.value for r in records] == values
    assert records[0].headers == (("h", b"1"), ("n", None)) and records[0].key is None
    assert native.payload_bytes(data) == (50, sum(map(len, values)))


def marker(producer_id, base_offset, kind):
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    return encode_batch(
        [(key, value, 0, [])], base_offset=base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0,
        transactional=True, control=True,
    )  # fmt: skip


def transactional(values, producer_id, base_offset):
    return batch(
        values, base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


def test_aborted_transactions_and_markers_are_left_out():
    data = (
        transactional([b"lost"], 5, 0)
        + transactional([b"kept"], 6, 1)
        + batch([b"plain"], 2)
        + marker(5, 3, 0)
        + transactional([b"next"], 5, 4)
        + marker(5, 5, 1)
        + marker(6, 6, 1)
    )
    assert [r.value for r in decoded(data, aborted=[(5, 0)])] == [b"kept", b"plain", b"next"]
    assert [r.value for r in decoded(data)] == [b"lost", b"kept", b"plain", b"next"]


def malformed(base_offset, count=1):
    data = bytearray(batch([b"abc"] * count, base_offset))
    data[-11] = 0x7F  # the last record's length
    return bytes(data)


@pytest.mark.parametrize("bad", [malformed(4, 3), batch([bytes(1 << 21)], 4, codec=1), bytes(80)])
def test_good_records_before_a_bad_batch(bad):
    """What the bad batch began to give is dropped; aborted transactions are not taken for good at the next call."""
    aborted = native.Aborted([(5, 0)])
    before = transactional([b"lost"], 5, 0) + batch([b"a", b"b"], 1) + marker(5, 3, 0)
    records, size, following, times = native.decode_good_records(
        Record, "t", 1, before + bad, 2, aborted=aborted, limit=1 << 20
    )
    assert [record.value for record in records] == [b"b"] and (size, following) == (len(before), 4)
    assert times == (records[0].timestamp, records[0].timestamp)
    for _ in range(2):
        with pytest.raises((CorruptBatch, CompressionError)):
            native.decode_good_records(Record, "t", 1, bad, following, aborted=aborted, limit=1 << 20)


class Failing(ObjectDecoder):
    """Fails as a decoder whose schema registry is down."""


def test_what_does_not_decode_in_a_bad_batch_is_dropped_with_it():
    good = batch([b"1", b"x"]) + batch([b"y"], 2)
    records, size, following, _, bad = native.decode_good_objects(
        Record, "t", 1, good + malformed(3, 2), 0, None, AnyJsonObjects(False)
    )
    assert [record.value for record in records] == [1, b"x", b"y"]
    assert (size, following, [each[0] for each in bad]) == (len(good), 3, [1, 2])


def test_the_batches_before_one_whose_decoder_fails_come_first():
    aborted = native.Aborted([(5, 0)])
    before = transactional([b"lost"], 5, 0) + transactional([None], 6, 1) + marker(5, 2, 0)
    data = before + batch([b"x"], 3)
    records, size, following, _, bad = native.decode_good_objects(
        Record, "t", 1, data, 0, None, Failing(), aborted=aborted
    )
    assert ([record.offset for record in records], size, following, bad) == ([1], len(before), 3, [])
    with pytest.raises(NotImplementedError):
        native.decode_good_objects(Record, "t", 1, data[size:], following, None, Failing(), aborted=aborted)


def test_where_to_go_on_behind_a_bad_batch():
    lies = bytearray(batch([b"a", b"b"], 3))
    struct.pack_into(">i", lies, 23, 1 << 30)  # the last offset delta
    assert end_of_first(memoryview(batch([b"a", b"b"], 3))) == 5
    assert end_of_first(memoryview(bytes(lies) + batch([b"c"], 9))) == 9
    for unknown in (b"", bytes(61), batch([b"a"])[:-1], b"\xff" * 61):
        assert end_of_first(memoryview(unknown)) is None


def test_with_producer_renews_the_crc():
    data = batch([b"a", b"b"])
    numbered = with_producer(data, 77, 3, 2**31 - 1)
    assert native.scan(numbered) == (len(data), 2, 2)
    assert numbered == batch([b"a", b"b"], producer_id=77, producer_epoch=3, base_sequence=2**31 - 1)
    assert data == batch([b"a", b"b"]), "the original stays"


def test_binary_column_has_arrows_layout():
    data, offsets, validity = binary_column([b"ab", None, b"", b"c"])
    assert (data, list(offsets), validity) == (b"abc", [0, 2, 2, 2, 3], b"\x0d")
    assert binary_column([b"x"])[2] is None
    with pytest.raises(TypeError, match=r"str"):
        binary_column(["x"])


def test_the_garbage_collector_need_not_look_at_records():
    records = decoded(encode_batch([(b"k", b"v", 1, [("h", b"1")])]))
    assert not gc.is_tracked(records[0])

    class WithDict(Record):
        """Has room for attributes, so it may be part of a cycle."""

    data = batch([b"a"])
    assert gc.is_tracked(native.decode_records(WithDict, "t", 1, data, 0)[0])


def test_record_class_must_be_a_tuple():
    with pytest.raises(TypeError):
        native.decode_records(dict, "t", 0, b"")


def test_errors_name_the_partition():
    data = bytearray(batch([b"abc"]))
    data[-2] ^= 1
    state = PartitionState()
    state.buffer(Chunk(memoryview(data), 0, 1, 1))
    with pytest.raises(CorruptBatchError, match=r"t-1 from offset 0: .*CRC.*seek\(\) to 1"):
        batches.take_good(state, True, P)
    with pytest.raises(CorruptBatchError, match=r"t-1 from offset 7: .*no record batch.*seek"):
        batches.scan(memoryview(bytes(100)), P, 7)
    for early in (batch([b"a"], 6), batch([b"a"], (1 << 63) - 1)):
        with pytest.raises(CorruptBatchError, match=r"t-1 from offset 7: .*before it"):
            batches.scan(memoryview(early), P, 7)
    with pytest.raises(CorruptBatchError, match=r"no complete batch"):
        batches.scan(memoryview(bytes(batch([b"abc"])[:70])), P, 0)
    with pytest.raises(CorruptBatchError, match=r"t-1 from offset 0"):
        batches.decode(Chunk(memoryview(malformed(0)), 0, 1, 1), P, 1 << 20)
    with pytest.raises(ConfigError, match=r"brotli"):
        encoded_batches.codec_number("brotli")


@pytest.mark.parametrize("codec", [0, 4])
def test_objects_are_made_a_few_at_a_time(codec):
    values = [b"%d" % i for i in range(20)]
    data = batch(values[:15], codec=codec) + batch(values[15:], base_offset=15, codec=codec)
    state = PartitionState()
    state.buffer(Chunk(memoryview(data), 2, 20, 20))
    found, counts = [], []
    while state.chunks:
        chunk = batches.take_good(state, True, P)
        assert chunk.checked
        records, following, _, rest, bad = batches.decode_objects(chunk, P, 1 << 20, (None, TextObjects()), 4)
        assert following == records[-1].offset + 1 and not bad
        if rest is not None:
            state.put_back(rest)
        found += [(record.offset, record.value) for record in records]
        counts.append(len(records))
    assert found == [(i, str(i)) for i in range(2, 20)]
    # What is compressed is decoded as a whole.
    assert counts == ([4, 4, 4, 4, 2] if codec == 0 else [13, 5])


def test_a_bad_record_behind_those_that_a_poll_needs_is_found_later():
    data = bytearray(batch([b"a", b"b", b"c"]))
    data[-1] = 0x7F  # of the last record: more headers than there are bytes
    texts = (None, TextObjects())
    chunk = Chunk(memoryview(data), 0, 3, 3)
    records, following, _, rest, _ = batches.decode_objects(chunk, P, 1 << 20, texts, 2)
    assert [record.value for record in records] == ["a", "b"] and following == 2
    with pytest.raises(CorruptBatchError, match="t-1 from offset 2"):
        batches.decode_objects(rest, P, 1 << 20, texts, 2)
