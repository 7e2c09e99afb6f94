"""Records of internal topics, as the bytes that lie in their logs."""

import random

import pytest

from bowstring.protocol import ProtocolError, encode
from bowstring.protocol.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from bowstring.protocol.records.classic_group import GroupMetadataKey, GroupMetadataValue
from bowstring.protocol.records.cluster_metadata.topics import TopicRecord
from bowstring.protocol.records.control_batch import (
    ControlRecordType,
    decode_control_key,
    decode_end_txn_marker,
    encode_control_key,
    encode_end_txn_marker,
)
from bowstring.protocol.records.coordinator import decode_key, decode_record, encode_key, encode_value
from bowstring.protocol.records.metadata_frame import decode_metadata_record, encode_metadata_record
from bowstring.protocol.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.support.declared_messages import versions
from tests.support.example_messages import example


def test_an_offset_commit_as_it_lies_in_the_log():
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9)
    assert (
        encode_value(value, 3).hex()
        == "0003" + "0000000000000005" + "00000001" + "00016d" + "0000000000000009"
    )
    assert decode_record(CONSUMER_OFFSETS, encode_key(key), encode_value(value, 3)) == (key, value)


def test_a_tombstone_has_no_value():
    key = GroupMetadataKey(group="g")
    assert decode_record(CONSUMER_OFFSETS, encode_key(key), None) == (key, None)


@pytest.mark.parametrize(
    "topic", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE], ids=lambda t: t.topic
)
def test_every_record_of_a_coordinator(topic):
    chance = random.Random(5)
    for record_type in topic:
        key_class, value_class = topic[record_type]
        assert key_class.record_type == value_class.record_type == record_type
        key = example(key_class, 0, chance)
        for version in versions(value_class):
            value = example(value_class, version, chance)
            assert decode_record(topic, encode_key(key), encode_value(value, version)) == (key, value)


def test_record_types_from_the_future_are_left_alone():
    assert decode_key(CONSUMER_OFFSETS, b"\x03\xe7whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (b"\x00\x01", None),
        (b"\x00\x02\x00\x01g", b""),
        (b"\x00\x02\x00\x01g", b"\x00\x63"),
    ],
)
def test_malformed_coordinator_records(key, value):
    with pytest.raises(ProtocolError):
        decode_record(CONSUMER_OFFSETS, key, value)


def test_group_metadata_of_every_version_reads_alike():
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m")
    key = encode_key(GroupMetadataKey(group="g"))
    for version in versions(GroupMetadataValue):
        assert decode_record(CONSUMER_OFFSETS, key, encode_value(value, version))[1] == value


def test_a_metadata_record_as_it_lies_in_the_log():
    record = TopicRecord(name="foo", topic_id=bytes(range(16)))
    data = encode_metadata_record(record, 0)
    assert data.hex() == "010200" + "04666f6f" + bytes(range(16)).hex() + "00"
    assert decode_metadata_record(data) == (record, 0)


def test_every_metadata_record():
    chance = random.Random(3)
    for key, declared in CLUSTER_METADATA.items():
        assert declared.api_key == key
        for version in versions(declared):
            record = example(declared, version, chance)
            assert decode_metadata_record(encode_metadata_record(record, version)) == (record, version)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends here"),
        (b"\x00\x02\x00", "only 1 is supported"),
        (b"\x01\x63\x00", "99 is not a record"),
        (b"\x01\x02", "ends here"),
        (b"\x01\x02\x07", "versions 0 to 0"),
        (b"\x01\xff\xff\xff\x01", "more than 3 bytes"),
    ],
)
def test_malformed_metadata_frames(data, reason):
    with pytest.raises(ProtocolError, match=reason):
        decode_metadata_record(data)


def test_control_records():
    assert encode_control_key(ControlRecordType.COMMIT) == b"\x00\x00\x00\x01"
    for record_type in ControlRecordType:
        assert decode_control_key(encode_control_key(record_type)) is record_type
    assert decode_control_key(b"\x00\x00\x00\x63") is None
    assert decode_control_key(b"\x00\x01\x00\x00more") is ControlRecordType.ABORT
    assert encode_end_txn_marker(258) == b"\x00\x00\x00\x00\x01\x02"
    assert decode_end_txn_marker(b"\x00\x00\x00\x00\x01\x02later") == 258
    for call in (decode_control_key, decode_end_txn_marker):
        with pytest.raises(ProtocolError):
            call(b"\x00\x00\x00")


def test_prefixes_are_not_part_of_the_message():
    value = OffsetCommitValue(offset=5)
    assert encode_value(value, 4)[2:] == encode(value, 4)
