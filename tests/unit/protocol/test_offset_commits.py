"""Offset commits decoded by the million equal those from the codec."""

import random

import pytest

from bowstring._native.protocol.message_codec import ProtocolError, decode
from bowstring._native.protocol.offset_commits import decode_offset_commits
from bowstring.engine.groups import records
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.offsets.store import CommittedOffset
from bowstring.protocol import encode
from bowstring.protocol.records.offsets import OffsetCommitKey, OffsetCommitValue

TOPIC_ID = bytes(range(16))


def decoded(items, most=1000):
    """Returns the offsets by group, topic and partition, and the rest, which is left to the codec."""
    found = {}
    first_seen = {}

    def partitions_of(group, topic, timestamp):
        first_seen.setdefault(group, timestamp)
        return found.setdefault((group, topic), {})

    others = []
    iterator = iter(items)
    while decode_offset_commits(iterator, most, partitions_of, CommittedOffset, others) == most:
        pass
    return found, others, first_seen


def by_codec(key, record_offset, value):
    """Returns name and offset as the codec decodes them; None if they are not an offset commit."""
    try:
        if key is None or value is None or key[:2] != b"\x00\x01":
            return None
        name = decode(OffsetCommitKey, 0, key, 2)
        body = decode(OffsetCommitValue, int.from_bytes(value[:2], "big", signed=True), value, 2)
    except ProtocolError:
        return None
    return (name.group, name.topic, name.partition), CommittedOffset(
        body.offset,
        body.leader_epoch,
        body.metadata,
        body.commit_timestamp,
        body.expire_timestamp,
        body.topic_id,
        record_offset,
    )


def commit(version, group="g", topic="t", partition=0, **fields):
    key = (1).to_bytes(2, "big") + encode(OffsetCommitKey(group=group, topic=topic, partition=partition), 0)
    values = {"offset": 7, "metadata": "m", "commit_timestamp": 9} | fields
    return key, version.to_bytes(2, "big") + encode(OffsetCommitValue(**values), version)


COMMITS = [
    *(commit(version) for version in range(5)),
    commit(1, expire_timestamp=99),
    commit(3, leader_epoch=5, offset=2**62, metadata=""),
    commit(4, leader_epoch=5, topic_id=TOPIC_ID, partition=2**31 - 1),
    commit(4, metadata="x" * 126),
    commit(4, metadata="x" * 127),
    commit(3, metadata="x" * 4096),
    commit(4, metadata="ü"),
    commit(4, group="grüße", topic="t"),
    commit(4, group="", topic=""),
]


@pytest.mark.parametrize("number", range(len(COMMITS)))
def test_one_commit(number):
    key, value = COMMITS[number]
    found, others, _ = decoded([(key, (3, value))])
    (group, topic, partition), offset = by_codec(key, 3, value)
    assert found == {(group, topic): {partition: offset}} or others == [(key, (3, value))]
    assert not (found and others)
    if found:
        (made,) = found[group, topic].values()
        assert type(made) is CommittedOffset and made.topic_id == offset.topic_id


def test_what_kafka_writes_is_not_left_to_the_codec():
    _, others, _ = decoded([(key, (0, value)) for key, value in COMMITS[:8]])
    assert not others


def test_other_records_are_left_to_the_codec():
    key, value = commit(4)
    group_key, group_value = records.empty_group(ClassicGroup("g", 0))
    odd = [
        (None, (0, b"")),
        (b"", (1, value)),
        (key, (2, None)),
        (group_key, (3, group_value)),
        (key + b"x", (4, value)),
        (b"\x00\x00" + key[2:], (5, value)),
        (key, (6, (5).to_bytes(2, "big") + value[2:])),
        (key, (7, b"\xff\xff" + value[2:])),
    ]
    for each in odd:
        assert decoded([each])[:2] == ({}, [each])


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records(seed):
    """Nothing is read beyond the record, and it accepts what the codec accepts."""
    chance = random.Random(seed)
    for _ in range(300):
        key, value = (bytearray(each) for each in chance.choice(COMMITS))
        for data in (key, value):
            if chance.random() < 0.5:
                data[chance.randrange(len(data))] = chance.randrange(256)
            if chance.random() < 0.3:
                del data[chance.randrange(len(data)) :]
        item = (bytes(key), (1, bytes(value)))
        found, others, _ = decoded([item])
        if not found:
            assert others == [item]
            continue
        (group, topic, partition), offset = by_codec(item[0], 1, item[1][1])
        assert found == {(group, topic): {partition: offset}}


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_many_groups_in_any_order(most):
    chance = random.Random(1)
    names = [(f"g{g}", f"t{t}", p) for g in range(5) for t in range(3) for p in range(4)]
    chance.shuffle(names)
    rows = [
        commit(4, *name, offset=number, commit_timestamp=number, topic_id=bytes([number % 3] * 16))
        for number, name in enumerate(names)
    ]
    found, others, first_seen = decoded([(k, (n, v)) for n, (k, v) in enumerate(rows)], most)
    assert not others
    for number, (group, topic, partition) in enumerate(names):
        offset = found[group, topic].pop(partition)
        assert (offset.offset, offset.record_offset) == (number, number)
        assert offset.topic_id == bytes([number % 3] * 16)
    assert not any(found.values())
    assert first_seen == {g: min(n for n, each in enumerate(names) if each[0] == g) for g, _, _ in names}
