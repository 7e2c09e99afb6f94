"""dump-log's lines are those of Kafka's DumpLogSegments; files are made by hand, so that they can be wrong."""

import json
import struct

import pytest

from bowstring._native.base.crc import crc32c
from bowstring._native.record.encode import encode_batch
from bowstring.protocol.records.cluster_metadata.security import UserScramCredentialRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.records.metadata_frame import encode_metadata_record

NAME = "00000000000000000010"


def batch(values, base_offset, timestamp=100, codec=0, **fields):
    rows = [(b"k%d" % i, value, timestamp + i, [("h", b"1")]) for i, value in enumerate(values)]
    return encode_batch(rows, codec, base_offset=base_offset, leader_epoch=3, **fields)


@pytest.fixture
def segment(tmp_path):
    batches = [
        batch([b"a", b"b"], 10, producer_id=5, producer_epoch=1, base_sequence=7),
        batch([b"c", None], 12, 200, codec=4),
    ]
    log = tmp_path / f"{NAME}.log"
    log.write_bytes(b"".join(batches))
    (tmp_path / f"{NAME}.index").write_bytes(struct.pack(">ii", 3, len(batches[0])) + bytes(16))
    (tmp_path / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 201, 3) + bytes(24))
    return log


def test_segments(offline, segment):
    lines = offline("dump-log", segment, "--print-data-log").lines
    first = segment.read_bytes()
    crc = struct.unpack_from(">I", first, 17)[0]
    size = struct.unpack_from(">i", first, 8)[0] + 12
    assert lines[:5] == [
        f"Dumping {segment}",
        "Log starting offset: 10",
        "baseOffset: 10 lastOffset: 11 count: 2 baseSequence: 7 lastSequence: 8 producerId: 5 producerEpoch: 1 "
        "partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        f"position: 0 CreateTime: 101 size: {size} magic: 2 compresscodec: none crc: {crc} isvalid: true",
        "| offset: 10 CreateTime: 100 keySize: 2 valueSize: 1 sequence: 7 headerKeys: [h] key: k0 payload: a",
        "| offset: 11 CreateTime: 101 keySize: 2 valueSize: 1 sequence: 8 headerKeys: [h] key: k1 payload: b",
    ]
    assert "compresscodec: zstd" in lines[5]
    assert (
        lines[7]
        == "| offset: 13 CreateTime: 201 keySize: 2 valueSize: -1 sequence: -1 headerKeys: [h] key: k1"
    )
    assert offline("dump-log", segment).lines == [*lines[:3], lines[5]]
    bare = offline("dump-log", "--files", segment, "--print-data-log", "--skip-record-metadata").lines
    assert bare[3] == "| key: k0 payload: a"
    assert len(offline("dump-log", segment, "--max-bytes", size).lines) == 3


def test_indexes(offline, segment):
    size = struct.unpack_from(">i", segment.read_bytes(), 8)[0] + 12
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    assert offline("dump-log", index).lines == [f"Dumping {index}", f"offset: 13 position: {size}"]
    assert offline("dump-log", times).lines == [f"Dumping {times}", "timestamp: 201 offset: 13"]
    assert offline("dump-log", index, times, "--verify-index-only").lines == [
        f"Dumping {index}",
        f"Dumping {times}",
    ]
    assert offline("dump-log", index, "--index-sanity-check").lines[1] == f"{index} passed sanity check."


def test_wrong_indexes(offline, segment):
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">ii", 2, 0))
    result = offline("dump-log", index)
    assert result.code == 1
    assert f"Mismatches in :{index}\n  Index offset: 12, log offset: 11" in result.err
    times.write_bytes(struct.pack(">qi", 300, 3))
    result = offline("dump-log", times, "--verify-index-only")
    assert result.code == 1 and "Index timestamp: 300, log timestamp: 201" in result.err
    times.write_bytes(struct.pack(">qi", 201, 3) + bytes(12))
    result = offline("dump-log", times, "--index-sanity-check")
    assert result.code == 1 and "less than the first" in result.err
    index.write_bytes(b"12345")
    assert "not a multiple" in offline("dump-log", index, "--index-sanity-check").err
    segment.unlink()
    index.write_bytes(struct.pack(">ii", 2, 0))
    assert "is missing beside it" in offline("dump-log", index).err


def test_damaged_segments(offline, segment):
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    result = offline("dump-log", segment)
    assert (
        result.code == 1 and "isvalid: false" in result.out and "position 0 fails its CRC-32C" in result.err
    )
    segment.write_bytes(data[:-3])
    assert "invalid bytes at the end of" in offline("dump-log", segment).out
    segment.write_bytes(batch([b"a"], 10) + batch([b"b"], 20))
    result = offline("dump-log", segment, "--deep-iteration")
    assert result.code == 1 and f"Non-consecutive offsets in {segment}\n  10 is followed by 20" in result.err
    segment.write_bytes(b"")
    assert offline("dump-log", segment).lines == [f"Dumping {segment}", "Log starting offset: 10"]


def test_transactions_producers_and_checkpoints(offline, tmp_path):
    transactions = tmp_path / f"{NAME}.txnindex"
    transactions.write_bytes(struct.pack(">hqqqq", 0, 5, 10, 12, 13))
    assert offline("dump-log", transactions).lines[1] == (
        "version: 0 producerId: 5 firstOffset: 10 lastOffset: 12 lastStableOffset: 13"
    )
    snapshot = tmp_path / f"{NAME}.snapshot"
    entries = struct.pack(">i", 2) + struct.pack(">qhiqiqiq", 5, 1, 9, 30, 2, 400, 0, -1)
    entries += struct.pack(">qhiqiqiq", 6, 0, -1, -1, 0, -1, 2, 17)
    snapshot.write_bytes(struct.pack(">hI", 1, crc32c(entries)) + entries)
    assert offline("dump-log", snapshot).lines[1:] == [
        "producerId: 5 producerEpoch: 1 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 400 firstSequence: 7 lastSequence: 9 lastOffset: 30 offsetDelta: 2 timestamp: 400",
        "producerId: 6 producerEpoch: 0 coordinatorEpoch: 2 currentTxnFirstOffset: OptionalLong[17] lastTimestamp: -1",
    ]
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"\1")
    result = offline("dump-log", snapshot)
    assert result.code == 1 and "CRC-32C does not match" in result.err
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n3 17\n")
    assert offline("dump-log", epochs).lines[1:] == ["epoch: 0 startOffset: 0", "epoch: 3 startOffset: 17"]
    epochs.write_text("0\n3\n0 0\n")
    assert "its second line says 3" in offline("dump-log", epochs).err


def test_control_records_and_decoders(offline, tmp_path):
    log = tmp_path / "00000000000000000000.log"
    commit = (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 9), 5, [])
    log.write_bytes(
        encode_batch(
            [commit], producer_id=1, producer_epoch=0, transactional=True, control=True, base_sequence=-1
        )
    )
    assert (
        offline("dump-log", log, "--deep-iteration")
        .lines[3]
        .endswith("endTxnMarker: COMMIT coordinatorEpoch: 9")
    )
    key = struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 3)
    value = struct.pack(">hqih0sq", 3, 42, -1, 0, b"", 77)
    log.write_bytes(encode_batch([(key, value, 5, []), (key, None, 5, [])]))
    lines = offline("dump-log", log, "--offsets-decoder").lines
    assert lines[3].endswith(
        'key: {"type":"1","data":{"group":"g","topic":"t","partition":3}} '
        'payload: {"version":"3","data":{"offset":42,"leaderEpoch":-1,"metadata":"","commitTimestamp":77}}'
    )
    assert lines[4].endswith("payload: <DELETE>")
    assert offline("dump-log", log, "--offsets-decoder", "--cluster-metadata-decoder").code == 2


def test_secrets_of_the_metadata_are_not_shown(offline, tmp_path):
    log = tmp_path / f"{NAME}.log"
    records = [
        UserScramCredentialRecord(name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v"),
        ConfigRecord(resource_type=4, resource_name="1", name="listener.name.x.sasl.jaas.config", value="pw"),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="pw"),
        ConfigRecord(resource_type=4, resource_name="1", name="num.io.threads", value="7"),
    ]
    log.write_bytes(encode_batch([(None, encode_metadata_record(each, 0), 5, []) for each in records]))
    lines = offline("dump-log", log, "--cluster-metadata-decoder").lines[3:]
    assert [line.count('"(redacted)"') for line in lines] == [3, 1, 1, 0]
    assert not any('"pw"' in line for line in lines) and '"7"' in lines[3]


def test_json_and_directories(offline, segment):
    result = offline("dump-log", segment.parent, "--json")
    rows = [json.loads(line) for line in result.lines]
    assert {row["file"] for row in rows} == {
        str(segment.with_suffix(s)) for s in (".log", ".index", ".timeindex")
    }
    assert [row["baseOffset"] for row in rows if "baseOffset" in row] == [10, 12]


def test_unknown_files_are_passed_over(offline, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("x")
    assert "ignoring unknown file" in offline("dump-log", file).err
    odd = tmp_path / "abc.log"
    odd.write_bytes(b"")
    assert "is not an offset" in offline("dump-log", odd).err
