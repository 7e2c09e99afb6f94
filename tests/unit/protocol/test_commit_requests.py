"""OffsetCommit without the schema-driven codec, compared with it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.protocol.commit_requests import (
    commit_rows,
    decode_commit,
    encode_commit_answer,
    put_commits,
    records_bytes,
)
from bowstring._native.record.encode import encode_batch
from bowstring.engine.groups import records
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset, OffsetStore
from bowstring.protocol import encode, encode_response
from bowstring.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION = 10
BATCH_HEADER_BYTES = 61
NOW_MS, BASE_OFFSET, CORRELATION_ID = 1_700_000_000_123, 40, 77

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
partitions = st.builds(
    OffsetCommitRequestPartition,
    partition_index=st.integers(0, 2**31 - 1),
    committed_offset=st.integers(-(2**63), 2**63 - 1),
    committed_leader_epoch=st.integers(-1, 2**31 - 1),
    committed_metadata=st.none() | texts,
)
topics = st.builds(
    OffsetCommitRequestTopic,
    name=texts,
    topic_id=st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
    partitions=st.lists(partitions, min_size=1, max_size=4),
)
requests = st.builds(
    OffsetCommitRequest,
    group_id=texts,
    generation_id_or_member_epoch=st.integers(-(2**31), 2**31 - 1),
    member_id=texts,
    group_instance_id=st.none() | texts,
    topics=st.lists(topics, min_size=1, max_size=3),
)


@given(requests, st.integers(5, TOPIC_ID_VERSION), st.integers(0, 99))
def test_the_codec_has_the_same_result(request, version, error):
    if version < 7:
        request.group_instance_id = None
    found = decode_commit(version, encode(request, version))
    names = [topic.topic_id if version >= TOPIC_ID_VERSION else topic.name for topic in request.topics]
    if len(set(names)) < len(names):
        assert found is None  # their answers are merged
        return
    assert (found.group_id, found.member_id) == (request.group_id, request.member_id)
    assert found.generation == request.generation_id_or_member_epoch
    assert found.instance_id == request.group_instance_id
    for topic, sent in zip(found.topics, request.topics, strict=True):
        topic.name, topic.topic_id = sent.name, sent.topic_id
        assert topic.highest == max(part.partition_index for part in sent.partitions)
        metadata = [part.committed_metadata or "" for part in sent.partitions]
        if all(text.isascii() for text in metadata):
            assert topic.longest == max(map(len, metadata))
        else:
            assert topic.longest == 2**31 - 1
    assert encode_commit_answer(found, CORRELATION_ID, error) == _answer(request, version, error)
    store, expected, rows = OffsetStore(), OffsetStore(), []
    put_commits([found], NOW_MS, BASE_OFFSET, store.partitions, CommittedOffset, NO_EXPIRY)
    for topic in request.topics:
        for part in topic.partitions:
            epoch = part.committed_leader_epoch if version >= 6 else -1
            offset = CommittedOffset(
                part.committed_offset,
                epoch,
                part.committed_metadata or "",
                NOW_MS,
                NO_EXPIRY,
                topic.topic_id,
                BASE_OFFSET + len(rows),
            )
            key = (request.group_id, topic.name, part.partition_index)
            rows.append((*records.offset_commit(*key, offset), NOW_MS, ()))
            expected.put(*key, offset)
    assert commit_rows([found], NOW_MS) == rows
    assert records_bytes(found) >= len(encode_batch(rows)) - BATCH_HEADER_BYTES
    assert dict(store) == dict(expected)
    assert all(type(each) is CommittedOffset for _, each_topic in store for each in _all(each_topic))


def _all(of_topics):
    return [offset for of_partitions in of_topics.values() for offset in of_partitions.values()]


def _answer(request, version, error):
    answer = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    return encode_response(8, version, CORRELATION_ID, answer)


@given(requests, st.integers(5, TOPIC_ID_VERSION), st.data())
def test_a_malformed_request_is_left_to_the_codec(request, version, data):
    if version < 7:
        request.group_instance_id = None
    body = encode(request, version)
    cut = data.draw(st.integers(0, len(body) - 1))
    assert decode_commit(version, body[:cut]) is None
    decode_commit(version, data.draw(st.binary(max_size=60)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack(">hih", 0, -1, 0) + struct.pack(">i", 0),  # no topic
        struct.pack(">hih", -1, -1, 0) + struct.pack(">i", 1),  # no group
        struct.pack(">hih", 0, -1, 0) + struct.pack(">i", 1 << 30),
        struct.pack(">h", 1) + b"\xff" + struct.pack(">ih", -1, 0) + struct.pack(">i", 0),
        memoryview(b"large"),
    ],
)
def test_what_clients_do_not_send(body):
    assert decode_commit(6, body) is None


def test_versions_with_a_retention_time():
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    assert decode_commit(4, encode(request, 4)) is None
    assert decode_commit(5, encode(request, 5)) is not None


def test_text_that_no_record_can_hold():
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    body = encode(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
    long = b"\x81\x80\x02" + b"g" * 0x8000  # its compact length, 32,769
    assert decode_commit(8, long + body[2:]) is None
    assert decode_commit(8, b"\x80\x80\x02" + b"g" * 0x7FFF + body[2:]) is not None
