"""OffsetFetch without the schema-driven codec, compared with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring._native.protocol.fetched_offsets import decode_offset_fetch, encode_offsets
from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.offsets.requests import fetch, stable_offsets
from bowstring.engine.groups.offsets.store import NO_EXPIRY, CommittedOffset
from bowstring.engine.groups.state import ShardState
from bowstring.protocol import ProtocolError, decode_request, encode, encode_response
from bowstring.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

OFFSET_FETCH, TOPIC_ID_VERSION, CORRELATION_ID = 9, 10, 77
GROUP = "a group"
NAMES = ["orders", "käufe", "x"]
IDS = {name: bytes([number]) * 16 for number, name in enumerate(NAMES, 1)}
NO_ID = bytes(16)

indexes = st.lists(st.integers(0, 4) | st.integers(-(2**31), 2**31 - 1), max_size=5)
topics = st.builds(
    lambda name, asked: OffsetFetchRequestTopics(name=name, topic_id=IDS[name], partition_indexes=asked),
    st.sampled_from(NAMES),
    indexes,
)
requests = st.builds(
    lambda group_id, asked, stable: OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=asked)], require_stable=stable
    ),
    st.sampled_from([GROUP, "another", "größe"]),
    st.lists(topics, max_size=4),
    st.booleans(),
)
offsets = st.builds(
    CommittedOffset,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    st.just(1),
    st.just(NO_EXPIRY),
    st.sampled_from([NO_ID, *IDS.values()]),
    st.just(0),
)
stored = st.dictionaries(st.tuples(st.sampled_from(NAMES), st.integers(0, 4)), offsets, max_size=9)


def shard(held=()) -> ShardState:
    state = ShardState(GroupConfig(), str)
    state.groups[GROUP] = ClassicGroup(GROUP, 0)
    for (topic, index), offset in dict(held).items():
        state.offsets.put(GROUP, topic, index, offset)
    return state


@given(requests, stored, st.integers(8, TOPIC_ID_VERSION))
def test_the_codec_has_the_same_result(request, held, version):
    body = encode(request, version)
    query, state = decode_offset_fetch(version, body), shard(held)
    (asked,) = decode_request(OFFSET_FETCH, version, body).groups
    assert (query.group_id, query.member_id, query.member_epoch) == (asked.group_id, None, -1)
    assert query.require_stable == request.require_stable
    sent = request.groups[0].topics
    if version >= TOPIC_ID_VERSION:
        assert query.topic_ids == [topic.topic_id for topic in sent] and query.names is None
        query.names = [topic.name for topic in sent]
        for topic, sent_topic in zip(asked.topics, sent, strict=True):
            topic.name = sent_topic.name
    else:
        assert query.names == [topic.name for topic in sent] and query.topic_ids is None
    expected = OffsetFetchResponse(groups=[fetch(state, asked, require_stable=request.require_stable)])
    found = encode_offsets(query, CORRELATION_ID, stable_offsets(state, query))
    assert found == encode_response(OFFSET_FETCH, version, CORRELATION_ID, expected)


@given(requests, st.integers(9, TOPIC_ID_VERSION), st.data())
def test_cut_and_changed_requests_are_left_to_the_codec(request, version, data):
    """What is decoded here, the codec decodes to the same."""
    body = bytearray(encode(request, version))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    else:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    query = decode_offset_fetch(version, bytes(body))
    try:
        decoded = decode_request(OFFSET_FETCH, version, bytes(body))
    except ProtocolError:
        assert query is None
        return
    if query is None:
        return
    (group,) = decoded.groups
    assert (query.group_id, query.member_id, query.member_epoch, query.require_stable) == (
        group.group_id,
        group.member_id,
        group.member_epoch,
        decoded.require_stable,
    )
    if query.names is None:
        assert query.topic_ids == [topic.topic_id for topic in group.topics]
        query.names = [""] * len(group.topics)
    else:
        assert query.names == [topic.name for topic in group.topics]
    assert encode_offsets(query, 1, {})


def asked(**changes) -> OffsetFetchRequest:
    group = {"group_id": GROUP, "topics": [OffsetFetchRequestTopics(name="x", partition_indexes=[0])]}
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(**{**group, **changes})])


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (asked(topics=None), 9),
        (asked(topics=[OffsetFetchRequestTopics(name="x", partition_indexes=list(range(501)))]), 9),
        (OffsetFetchRequest(groups=[]), 9),
        (OffsetFetchRequest(groups=asked().groups * 2), 9),
        (OffsetFetchRequest(group_id=GROUP, topics=[]), 7),
        (asked(), 11),
    ],
)
def test_what_is_unusual_is_left_to_the_codec(request_, version):
    body = encode(request_, min(version, TOPIC_ID_VERSION))
    assert decode_offset_fetch(version, body) is None
    assert decode_offset_fetch(9, memoryview(encode(asked(), 9))) is None


def test_a_member_and_its_epoch_are_decoded():
    query = decode_offset_fetch(9, encode(asked(member_id="m", member_epoch=4), 9))
    assert (query.member_id, query.member_epoch) == ("m", 4)
    assert decode_offset_fetch(9, encode(asked(), 9) + b"more").group_id == GROUP  # as the codec does


def test_an_open_transaction_is_waited_for_where_that_is_required():
    state = shard()
    offset = CommittedOffset(1, -1, "", 1, NO_EXPIRY, NO_ID, 0)
    state.offsets.put_pending(5, (GROUP, "x", 0), offset)
    request = asked()
    assert stable_offsets(state, decode_offset_fetch(9, encode(request, 9))) == {}
    request.require_stable = True
    assert stable_offsets(state, decode_offset_fetch(9, encode(request, 9))) is None
