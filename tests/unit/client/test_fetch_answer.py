"""Fetch answers parsed natively, held against the schema-driven codec."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring._native.client.fetch_codec import MalformedAnswer, parse_fetch_answer
from bowstring.protocol import frames
from bowstring.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tests.support.examples import examples

VERSIONS = st.integers(4, 18)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
partitions = st.builds(
    PartitionData,
    partition_index=int32,
    error_code=st.integers(-1, 100),
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    aborted_transactions=st.none()
    | st.lists(st.builds(AbortedTransaction, producer_id=int64, first_offset=int64), max_size=3),
    records=st.none() | st.binary(max_size=200),
    preferred_read_replica=int32,
    diverging_epoch=st.builds(EpochEndOffset, epoch=int32, end_offset=int64),
    current_leader=st.builds(LeaderIdAndEpoch, leader_id=int32, leader_epoch=int32),
)
topics = st.builds(
    FetchableTopicResponse,
    topic=st.text(max_size=8),
    topic_id=st.binary(min_size=16, max_size=16),
    partitions=st.lists(partitions, max_size=3),
)
answers = st.builds(
    FetchResponse,
    throttle_time_ms=int32,
    error_code=st.integers(-1, 100),
    session_id=int32,
    responses=st.lists(topics, max_size=3),
)


def frame_of(answer, version):
    if version < 7:  # what the version has no place for
        answer.session_id = 0
    if version >= 16:
        answer.node_endpoints = [
            NodeEndpoint(node_id=1, host="h", port=1),
            NodeEndpoint(node_id=2, host="ö", port=9092, rack="r"),
        ]
    if version < 11:
        for topic in answer.responses:
            for part in topic.partitions:
                part.preferred_read_replica = -1
    if version < 12:
        for topic in answer.responses:
            for part in topic.partitions:
                part.diverging_epoch, part.current_leader = EpochEndOffset(), LeaderIdAndEpoch()
    return frames.encode_response(1, version, 77, answer)


@settings(max_examples=examples(200))
@given(answers, VERSIONS)
def test_every_version_is_read_as_the_codec_reads_it(answer, version):
    frame = frame_of(answer, version)
    _, expected = frames.decode_response(1, version, frame)
    found = parse_fetch_answer(memoryview(frame), version)
    assert (found.error_code, found.session_id) == (expected.error_code, expected.session_id)
    assert found.throttle_time_ms == expected.throttle_time_ms
    parts = [(topic, part) for topic in expected.responses for part in topic.partitions]
    assert len(found.partitions) == len(parts)
    for got, (topic, part) in zip(found.partitions, parts, strict=True):
        assert got[:7] == (
            topic.topic, bytes(topic.topic_id), part.partition_index, part.error_code, part.high_watermark,
            part.last_stable_offset, part.log_start_offset,
        )  # fmt: skip
        assert got.aborted == [(a.producer_id, a.first_offset) for a in part.aborted_transactions or ()]
        assert (got.records is None) == (part.records is None)
        assert got.records is None or got.records == part.records
        assert got.preferred_replica == part.preferred_read_replica
        leader = (part.current_leader.leader_id, part.current_leader.leader_epoch)
        assert got.leader == (None if leader == (-1, -1) else leader)
    endpoints = [(1, "h", 1, None), (2, "ö", 9092, "r")] if version >= 16 else []
    assert found.endpoints == endpoints


@settings(max_examples=examples(100))
@given(answers, VERSIONS, st.data())
def test_damaged_answers_are_refused_or_read_but_never_beyond_their_end(answer, version, data):
    frame = frame_of(answer, version)
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(MalformedAnswer, match=r"makes no sense at byte"):
        parse_fetch_answer(memoryview(frame)[:cut], version)
    with pytest.raises(MalformedAnswer):
        parse_fetch_answer(memoryview(bytes(frame) + b"\0"), version)
    damaged = bytearray(frame)
    damaged[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = parse_fetch_answer(memoryview(damaged), version)
    except MalformedAnswer:
        return
    assert sum(len(part.records or b"") for part in found.partitions) <= len(frame)


def test_records_are_not_copied():
    answer = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(partition_index=0, records=b"abc")])]
    )
    frame = bytearray(frame_of(answer, 17))
    records = parse_fetch_answer(memoryview(frame), 17).partitions[0].records
    frame[frame.index(b"abc")] = ord("x")
    assert records == b"xbc"
